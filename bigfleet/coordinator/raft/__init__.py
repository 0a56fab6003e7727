"""The replicated log on pysyncobj, guarded; see README.md beside this file.

Rules: `coordinator#membership`, `coordinator#process`, `coordinator#raft-library`, `coordinator#pinned-library`,
`coordinator#first-bootstrap`, `coordinator#contract-test`, `coordinator#raft-tls`, `coordinator#torn-tail`,
`coordinator#raft-secret`, `coordinator#command-levels`.
"""
