"""The replicated log on pysyncobj, guarded; see README.md beside this file.

Rules: coordinator 9, 11, 17; decisions C2, C3, C7, C8, C10, C11, C12.
"""
