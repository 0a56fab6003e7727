"""What production code may reach only through a seam, as tables.

Why: the seam check is as good as its lists, so they stand alone, to be read and added to.
Must never: hold an exemption; those are in `tests.architecture.seams`, each with its reason.
Rules: `testing#constructor-seams`.
"""

import enum


class Rule(enum.Enum):
    """The seam that was gone past, or the promise broken."""

    CLOCK = "time comes through the clock seam"
    RANDOM = "randomness and ids come through the rng and ids seams"
    NETWORK = "connections come through the net seam"
    DISK = "files come through the disk seam"
    PROCESS = "signals, exits, environment and children come through the proc seam or the programs"
    THREADS = "work runs on the event loop; blocking calls go to asyncio.to_thread"
    ORDER = "a set has no order; sort it before it reaches an output"


# Importing these at all, or anything below them.
IMPORTS: dict[str, Rule] = {
    "time": Rule.CLOCK,
    "sched": Rule.CLOCK,
    "random": Rule.RANDOM,
    "secrets": Rule.RANDOM,
    "uuid": Rule.RANDOM,
    "numpy.random": Rule.RANDOM,
    "socket": Rule.NETWORK,
    "socketserver": Rule.NETWORK,
    "ssl": Rule.NETWORK,
    "select": Rule.NETWORK,
    "selectors": Rule.NETWORK,
    "http.client": Rule.NETWORK,
    "http.server": Rule.NETWORK,
    "urllib.request": Rule.NETWORK,
    "threading": Rule.THREADS,
    "_thread": Rule.THREADS,
    "queue": Rule.THREADS,
    "concurrent": Rule.THREADS,
    "multiprocessing": Rule.THREADS,
    "subprocess": Rule.PROCESS,
    "atexit": Rule.PROCESS,
    "tempfile": Rule.DISK,
    "shutil": Rule.DISK,
    "fcntl": Rule.DISK,
    "mmap": Rule.DISK,
    "glob": Rule.DISK,
    "fileinput": Rule.DISK,
    "sqlite3": Rule.DISK,
}

# Naming these, called or handed on.
NAMES: dict[str, Rule] = {
    "open": Rule.DISK,
    "io.open": Rule.DISK,
    "io.FileIO": Rule.DISK,
    "pathlib.Path.cwd": Rule.DISK,
    "pathlib.Path.home": Rule.DISK,
    "datetime.datetime.now": Rule.CLOCK,
    "datetime.datetime.utcnow": Rule.CLOCK,
    "datetime.datetime.today": Rule.CLOCK,
    "datetime.date.today": Rule.CLOCK,
    "asyncio.sleep": Rule.CLOCK,
    "asyncio.timeout": Rule.CLOCK,  # deadlines by the clock of the host: bigfleet.aio.clock.timeout
    "asyncio.timeout_at": Rule.CLOCK,
    "asyncio.wait_for": Rule.CLOCK,
    "asyncio.as_completed": Rule.ORDER,  # it makes tasks of a set of coroutines, in the order of their addresses
    "asyncio.open_connection": Rule.NETWORK,
    "asyncio.start_server": Rule.NETWORK,
    "asyncio.open_unix_connection": Rule.NETWORK,
    "asyncio.start_unix_server": Rule.NETWORK,
    "asyncio.create_subprocess_exec": Rule.PROCESS,
    "asyncio.create_subprocess_shell": Rule.PROCESS,
    "sys.exit": Rule.PROCESS,
    "signal.signal": Rule.PROCESS,
    "signal.raise_signal": Rule.PROCESS,
    "signal.setitimer": Rule.CLOCK,
    "signal.alarm": Rule.CLOCK,
    "numpy.random": Rule.RANDOM,
}

# Of `os` only what computes on names is free; the rest is a file unless said otherwise here.
OS_FREE = frozenset(
    {
        "os.PathLike",
        "os.curdir",
        "os.fsdecode",
        "os.fsencode",
        "os.fspath",
        "os.linesep",
        "os.path.basename",
        "os.path.commonpath",
        "os.path.dirname",
        "os.path.isabs",
        "os.path.join",
        "os.path.normpath",
        "os.path.split",
        "os.path.splitext",
        "os.sep",
        "os.strerror",
    }
)
OS_OTHERS: dict[str, Rule] = {
    "urandom": Rule.RANDOM,
    "getrandom": Rule.RANDOM,
    "times": Rule.CLOCK,
    "environ": Rule.PROCESS,
    "getenv": Rule.PROCESS,
    "putenv": Rule.PROCESS,
    "unsetenv": Rule.PROCESS,
    "getpid": Rule.PROCESS,
    "getppid": Rule.PROCESS,
    "getuid": Rule.PROCESS,
    "kill": Rule.PROCESS,
    "killpg": Rule.PROCESS,
    "fork": Rule.PROCESS,
    "_exit": Rule.PROCESS,
    "abort": Rule.PROCESS,
    "system": Rule.PROCESS,
    "popen": Rule.PROCESS,
    "cpu_count": Rule.PROCESS,
    "uname": Rule.PROCESS,
    "waitpid": Rule.PROCESS,
    "execv": Rule.PROCESS,
    "execve": Rule.PROCESS,
    "execvp": Rule.PROCESS,
    "posix_spawn": Rule.PROCESS,
}

# Methods of paths. The first are found by name alone, the second only where the receiver is known to be a path: others
# have methods of these names too, above all strings and the disk seam.
PATH_METHODS_BY_NAME = frozenset(
    {
        "expanduser",
        "hardlink_to",
        "is_dir",
        "is_file",
        "is_symlink",
        "iterdir",
        "lstat",
        "read_bytes",
        "read_text",
        "rglob",
        "symlink_to",
        "unlink",
        "write_bytes",
        "write_text",
    }
)
PATH_METHODS_OF_PATHS = frozenset(
    {
        "absolute",
        "chmod",
        "exists",
        "glob",
        "mkdir",
        "open",
        "readlink",
        "rename",
        "replace",
        "resolve",
        "rmdir",
        "samefile",
        "stat",
        "touch",
    }
)

# Methods of event loops.
LOOP_METHODS: dict[str, Rule] = {
    "time": Rule.CLOCK,
    "call_later": Rule.CLOCK,
    "call_at": Rule.CLOCK,
    "add_signal_handler": Rule.PROCESS,
    "subprocess_exec": Rule.PROCESS,
    "subprocess_shell": Rule.PROCESS,
    "add_reader": Rule.NETWORK,
    "add_writer": Rule.NETWORK,
    "create_connection": Rule.NETWORK,
    "create_datagram_endpoint": Rule.NETWORK,
    "create_server": Rule.NETWORK,
    "getaddrinfo": Rule.NETWORK,
    "sock_accept": Rule.NETWORK,
    "sock_connect": Rule.NETWORK,
    "sock_recv": Rule.NETWORK,
    "sock_sendall": Rule.NETWORK,
}

# Whoever is handed a set here shows its order.
ORDERED_CONSUMERS = frozenset(
    {"dict", "enumerate", "filter", "iter", "list", "map", "print", "repr", "reversed", "str", "tuple", "zip"}
)
ORDERED_METHODS = frozenset({"extend", "extendleft", "fromkeys", "join", "writelines"})
# And whoever is handed what was made from a set here does not.
UNORDERED_CONSUMERS = frozenset({"all", "any", "frozenset", "len", "max", "min", "set", "sorted", "sum"})
