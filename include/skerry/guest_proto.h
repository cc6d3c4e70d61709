/*
 * The wire format between the host (src/agent) and the guest's agent (src/guest).
 *
 * One byte stream (a virtio-serial port) carries frames: a 20-byte header, then `length` bytes of
 * payload. All integers are little-endian. A string is a u32 length and that many bytes, without
 * NUL.
 *
 * Synchronisation. A stream can begin in the middle of a frame: the daemon was killed while
 * writing, or the guest was restored from a snapshot taken at any moment. Whoever connects (the
 * host) sends a marker: PROTO_MARKER (16 bytes) and a 16-byte nonce, then HELLO. The guest,
 * wherever a frame's magic or checksum is wrong or the port was hung up, drops bytes until it sees
 * PROTO_MARKER; it then forgets the session (followers, credit, queued frames; commands go on), and
 * answers with the same marker and nonce, then HELLO_ACK. The host drops bytes until it sees its
 * own nonce. A host that gets no answer within PROTO_FLUSH_AFTER_MS sends PROTO_TO_GUEST_MAX zero
 * bytes, which complete any half frame, and the marker again with a new nonce. The half frame then
 * has a wrong checksum, so that what was cut off is never taken for a whole request, and the search
 * goes on inside its payload.
 *
 * Handles. A u32 chosen by the host, unique within the session, names one consumer of one exec:
 * EXEC and ATTACH open one, DETACH closes it. Several handles may look at the same exec.
 *
 * A guest that loses the stream while a session is open says so once with LOST: the host closes the
 * channel and connects anew.
 *
 * Output. The guest keeps an exec's stdout and stderr in log files with absolute byte offsets; the
 * host pulls: FOLLOW sets where to read from and how much credit there is, CREDIT adds to it, and
 * the guest sends DATA only against credit. A log over its cap drops its middle (the head and the
 * newest bytes stay); whoever asks for dropped bytes gets a GAP. A follower with
 * PROTO_FOLLOW_BACKPRESSURE makes the guest stop reading the command's pipe rather than drop bytes
 * that it has not been sent.
 *
 * Freezing. FREEZE writes out the guest's file system and holds all commands still, for a snapshot;
 * THAW lets them go on. What is restored from the snapshot begins frozen and goes on with the HELLO
 * that gives it an identity, after all parts of that were taken and before HELLO_ACK; if one could
 * not be taken it stays frozen. A HELLO without an identity thaws too. A process that must know
 * that it has become another (to reseed a generator of its own, to drop connections) watches
 * /run/skerry/generation with inotify(7): the file holds the number `epoch` in decimal, a newline
 * behind it, and is written in place (IN_MODIFY) whenever an identity is taken, before any process
 * goes on.
 *
 * Terminals. An EXEC with PROTO_EXEC_TTY runs in a terminal of its own: the guest makes a PTY, its
 * output is the stream PROTO_STDOUT, its input goes to the terminal, RESIZE sets its size. The
 * command "" is a login shell. Nothing ends a terminal but its command's end or a SIGNAL. One whose
 * shell waits at its prompt is no command that runs, for ACTIVITY.
 *
 * Input. The guest grants by absolute offset with INPUT_WINDOW; the host never sends beyond it.
 *
 * Files. FILE is an exec whose child runs a file operation of the agent's own (proto/file.h has the
 * request and what comes back) instead of a shell: as a user, in the sandbox's root and in a cgroup
 * like any other. It differs in that its output goes to the handle straight from the pipe and is
 * kept nowhere; so it has one handle, the one that started it, and ends when that closes. It
 * cannot be attached to. Its end is said once all of its output has gone.
 *
 * Both sides treat every frame as hostile: unknown types, wrong lengths and foreign handles end the
 * session (guest side: resynchronise; host side: channel error), never the process.
 */
#pragma once

#include <assert.h>
#include <stdint.h>

#define PROTO_VERSION	     2u
#define PROTO_MAGIC	     0x31524b53u		 /* "SKR1" */
#define PROTO_MARKER	     "\x8f\x1bskerry-resync\xe2" /* 16 bytes */
#define PROTO_MARKER_LEN     16u
#define PROTO_NONCE_LEN	     16u
#define PROTO_FLUSH_AFTER_MS 1000
#define PROTO_PORT_NAME	     "skerry.agent" /* name= of the virtserialport */

#define PROTO_TO_GUEST_MAX	(512u * 1024u) /* payload of one frame, host to guest */
#define PROTO_TO_HOST_MAX	(64u * 1024u)  /* payload of one frame, guest to host */
#define PROTO_DATA_MAX		(32u * 1024u)  /* bytes of output or input in one frame */
#define PROTO_INPUT_WINDOW	(256u * 1024u) /* unconsumed stdin the guest buffers for one exec */
#define PROTO_COMMAND_MAX	(128u * 1024u - 1u) /* Linux: MAX_ARG_STRLEN, one argument of execve */
#define PROTO_ENV_MAX		(128u * 1024u)	    /* all of env together */
#define PROTO_EXEC_ID_MAX	32u
#define PROTO_FILE_REQUEST_MAX	(16u * 1024u) /* an encoded file request */
#define PROTO_HANDLES_MAX	1024u	      /* open at once in a session */
#define PROTO_EXECS_RUNNING_MAX 256u	      /* running at once in a guest */
#define PROTO_EXECS_KEPT_MAX	256u	      /* ended execs whose logs are kept; oldest go first */
#define PROTO_LOG_CAP_DEFAULT	(64ull * 1024 * 1024) /* bytes kept of one stream */
#define PROTO_ENTROPY_LEN	64u
#define PROTO_TTY_SIZE_MAX	4096u /* columns or rows */
#define PROTO_TERMINALS_MAX	256u  /* in TERMINALS */
#define PROTO_EXECS_MAX		160u  /* in EXECS */
#define PROTO_COMMAND_SHOWN_MAX 240u  /* bytes of a command in EXECS */

struct proto_header {
	uint32_t magic;
	uint8_t version;
	uint8_t type; /* enum proto_type */
	uint16_t flags;
	uint32_t handle;
	uint32_t length;
	uint32_t checksum; /* of the fields from version to length and the payload (frame.c) */
};
static_assert(sizeof(struct proto_header) == 20, "wire format");

enum proto_type {
	/* host to guest */
	PROTO_HELLO = 1, /* u32 version, u64 epoch, u64 unix_us, bytes[64] entropy, string hostname,
			    string machine_id; flags: PROTO_HELLO_IDENTITY */
	PROTO_PING = 2,	 /* u64 token */
	PROTO_EXEC = 3,	 /* string exec_id, u64 timeout_ms (0: none), string user ("" = sandbox),
			    string cwd ("" = the user's home), string command, u64 log_cap,
			    u64 stdout_credit, u64 stderr_credit, u32 n_env, n_env × string "K=V";
			    flags: PROTO_EXEC_STDIN, PROTO_EXEC_CONFINED,
			    PROTO_FOLLOW_BACKPRESSURE, PROTO_EXEC_TTY:
			    then also u32 cols, u32 rows, u32 max: refused with PROTO_FAIL_LIMIT
			    when so many terminals are open */
	PROTO_ATTACH = 4, /* string exec_id */
	PROTO_FOLLOW = 5, /* u8 stream, u64 offset, u64 credit; flags: PROTO_FOLLOW_BACKPRESSURE.
			     Answered by FOLLOWING; frames of that stream before it belong to an
			     earlier FOLLOW */
	PROTO_CREDIT = 6, /* u8 stream, u64 bytes */
	PROTO_INPUT = 7,  /* u64 offset, bytes: must continue where the last one ended */
	PROTO_INPUT_CLOSE = 8,
	PROTO_SIGNAL = 9,  /* u32 signal number; SIGKILL kills the exec's whole cgroup */
	PROTO_DETACH = 10, /* the handle is free afterwards; the exec goes on */
	PROTO_CLOCK =
		11, /* u64 unix_us: sets the guest's clock; no answer (a PING behind it tells) */
	PROTO_FREEZE =
		12,	 /* u64 token, u32 timeout_ms; answered by FREEZER when done or given up */
	PROTO_THAW = 13, /* u64 token; answered by FREEZER */
	PROTO_ASK_ACTIVITY = 14, /* u64 token; answered by ACTIVITY */
	PROTO_FILE = 20,   /* string exec_id, string user ("" = sandbox), u64 stdout_credit, u64
			      stderr_credit, string request; flags: PROTO_EXEC_STDIN,
			      PROTO_EXEC_CONFINED. Answered as EXEC is */
	PROTO_RESIZE = 24, /* u32 cols, u32 rows: of a terminal */
	PROTO_ASK_TERMINALS = 25, /* u64 token; answered by TERMINALS */
	PROTO_ASK_EXECS = 26,	  /* u64 token; answered by EXECS */

	/* guest to host */
	PROTO_HELLO_ACK = 65, /* u32 version, u64 epoch, u64 guest_boottime_ms, u32 applied
				 (PROTO_APPLIED_…), u64 mem_total_kib, string agent_version,
				 string kernel_release, string os_name */
	PROTO_PONG = 66,      /* u64 token */
	PROTO_STARTED = 67,   /* u32 pid */
	PROTO_FAILED = 68, /* u32 enum proto_failure, string message: EXEC or ATTACH did not work;
			      the handle is closed */
	PROTO_STATE = 69,  /* answer to ATTACH: u8 running, u64 stdout_total, u64 stderr_total,
			      u64 input_offset, u64 duration_ms; an ended exec's EXIT follows */
	PROTO_DATA = 70,   /* u8 stream, u64 offset, bytes */
	PROTO_GAP = 71, /* u8 stream, u64 from, u64 to: dropped by the log's cap; costs no credit */
	PROTO_EOF = 72, /* u8 stream, u64 total: every writer has closed, all was sent */
	PROTO_EXIT = 73, /* i32 exit_code (-1 if by signal), u32 signal, u32 PROTO_EXIT_… bits,
			    u64 duration_ms, u64 stdout_total, u64 stderr_total. Sent once a
			    handle, after what the pipes held when the command ended was logged */
	PROTO_INPUT_WINDOW_FRAME = 74, /* u64 offset up to which the host may send */
	PROTO_FOLLOWING = 75,	       /* u8 stream, u64 offset */
	PROTO_LOST = 76,	       /* the guest could not make sense of the stream */
	PROTO_FREEZER = 77, /* u64 token, u8 frozen, u8 synced: are the commands frozen, and was the
			       file system written out before */
	PROTO_ACTIVITY = 78,  /* u64 token, u32 running: execs that have not ended, u64 quiet_ms:
				 since the last one did, or since the guest's boot */
	PROTO_TERMINALS = 88, /* u64 token, u32 n, n × (string exec_id, u64 age_ms, u64 total: bytes
				 of output, u32 cols, u32 rows, u8 busy: runs something else than a
				 shell at its prompt): those that are open, oldest first */
	PROTO_EXECS = 89, /* u64 token, u32 n, n × (string exec_id, string command: its first bytes,
			     u8 whole: all of them, u8 running, u64 age_ms, and as in EXIT: i32
			     exit_code, u32 signal, u32 bits, u64 duration_ms, u64 stdout_total, u64
			     stderr_total): commands, those that run before those that have ended,
			     newest first */
};

#define PROTO_HELLO_IDENTITY	  0x1u /* take identity, entropy and clock before answering */
#define PROTO_EXEC_STDIN	  0x1u /* stdin is a pipe fed by INPUT; otherwise /dev/null */
#define PROTO_FOLLOW_BACKPRESSURE 0x2u
#define PROTO_EXEC_TTY		  0x4u
/* Not as root: refused with PROTO_FAIL_DENIED where its user is, and without a way to become it
 * (no_new_privs, so that no set-user-id program gives rights). */
#define PROTO_EXEC_CONFINED 0x8u

#define PROTO_APPLIED_ENTROPY	 0x1u
#define PROTO_APPLIED_CLOCK	 0x2u
#define PROTO_APPLIED_HOSTNAME	 0x4u
#define PROTO_APPLIED_MACHINE_ID 0x8u
#define PROTO_APPLIED_GENERATION 0x10u
#define PROTO_APPLIED_ALL	 0x1fu

#define PROTO_EXIT_TIMED_OUT 0x1u /* killed at its deadline */
#define PROTO_EXIT_OOM	     0x2u /* the kernel killed a process of it for memory */

enum proto_stream { PROTO_STDOUT = 1, PROTO_STDERR = 2 };

enum proto_failure {
	PROTO_FAIL_BAD_REQUEST = 1,
	PROTO_FAIL_CWD = 2,	       /* cwd does not exist or is not a directory */
	PROTO_FAIL_USER = 3,	       /* no such user */
	PROTO_FAIL_NOT_EXECUTABLE = 4, /* no shell to run the command with */
	PROTO_FAIL_LIMIT = 5,	       /* too many execs running or handles open */
	PROTO_FAIL_EXISTS = 6,	       /* exec_id is in use */
	PROTO_FAIL_UNKNOWN_EXEC = 7,   /* ATTACH: no such exec (any more) */
	PROTO_FAIL_RESOURCES = 8,      /* fork, pipes, disk: the message says */
	PROTO_FAIL_DENIED = 9,	       /* PROTO_EXEC_CONFINED, and the user is root */
};
