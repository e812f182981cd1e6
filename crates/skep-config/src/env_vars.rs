//! Every environment variable that `skep` reads, in one place.
//!
//! Nothing else in the workspace reads the environment: `main` does, once, through this list.

/// One variable: its name, the key of `skep.toml` it overrides, and what it means.
#[derive(Debug, Clone, Copy)]
pub struct EnvVar {
    /// Name as in the environment, for example `SKEP_LOG`.
    pub name: &'static str,
    /// The key of the configuration file it overrides, with dots; empty if there is none.
    pub key: &'static str,
    /// One sentence for the reference page.
    pub help: &'static str,
}

/// Path of the configuration file.
pub const SKEP_CONFIG: &str = "SKEP_CONFIG";
/// Log filter, as tracing directives.
pub const SKEP_LOG: &str = "SKEP_LOG";
/// Form of log lines.
pub const SKEP_LOG_FORMAT: &str = "SKEP_LOG_FORMAT";
/// URL of the server that the client commands talk to.
pub const SKEP_SERVER: &str = "SKEP_SERVER";
/// URL of the API that the SDKs are told; the client commands read the same one.
pub const E2B_API_URL: &str = "E2B_API_URL";
/// The key of the client commands; the SDKs read the same one.
pub const E2B_API_KEY: &str = "E2B_API_KEY";

/// Every variable that is read, in the order of the reference page.
pub const ALL: &[EnvVar] = &[
    EnvVar {
        name: SKEP_CONFIG,
        key: "",
        help: "path of the configuration file; without it `/etc/skep/skep.toml` is read if it exists",
    },
    EnvVar {
        name: SKEP_LOG,
        key: "",
        help: "what is logged, as tracing directives such as `info` or `warn,skep_node=debug`",
    },
    EnvVar {
        name: SKEP_LOG_FORMAT,
        key: "",
        help: "`text` or `json`: the form of log lines; without it `skep up` logs text, and what a service runs JSON unless it is at a terminal",
    },
    EnvVar {
        name: SKEP_SERVER,
        key: "",
        help: "URL of the server that `skep sandbox`, `skep key` and the other client commands talk to",
    },
    EnvVar {
        name: E2B_API_URL,
        key: "",
        help: "URL of the server if `SKEP_SERVER` names none, as the SDKs read it",
    },
    EnvVar {
        name: E2B_API_KEY,
        key: "",
        help: "key that the client commands use; without it the local operator's key in the data directory",
    },
    EnvVar {
        name: "NO_COLOR",
        key: "",
        help: "if it is not empty, `skep run` and `skep repl` use no colours, and ask the code for none",
    },
    EnvVar {
        name: "TERM",
        key: "",
        help: "the kind of terminal: `dumb` has no colours, `xterm-kitty` and `xterm-ghostty` show pictures",
    },
    EnvVar {
        name: "TERM_PROGRAM",
        key: "",
        help: "the terminal: iTerm2, WezTerm and Ghostty show pictures of `skep run` and `skep repl`",
    },
    EnvVar {
        name: "KITTY_WINDOW_ID",
        key: "",
        help: "set by Kitty, which shows pictures of `skep run` and `skep repl`",
    },
    EnvVar {
        name: "TMUX",
        key: "",
        help: "set by tmux, which passes no pictures on",
    },
    EnvVar {
        name: "XDG_STATE_HOME",
        key: "",
        help: "where `skep repl` keeps what was entered, in `skep/history-…`; without it `~/.local/state`",
    },
    EnvVar {
        name: "HOME",
        key: "",
        help: "the home of the user, for the history of `skep repl`",
    },
    EnvVar {
        name: "SKEP_LISTEN",
        key: "listen",
        help: "address and port to serve on",
    },
    EnvVar {
        name: "SKEP_DATA_DIR",
        key: "data_dir",
        help: "where the record and the sandboxes live",
    },
    EnvVar {
        name: "SKEP_CACHE_DIR",
        key: "cache_dir",
        help: "where template layers are kept",
    },
    EnvVar {
        name: "SKEP_DOMAIN",
        key: "domain",
        help: "domain under which sandboxes have host names",
    },
    EnvVar {
        name: "SKEP_WHEN_STOPPED",
        key: "when_stopped",
        help: "`leave` or `end`: what happens to sandboxes when the server stops",
    },
    EnvVar {
        name: "SKEP_SHARE_HOST_PACKAGE_SETTINGS",
        key: "share_host_package_settings",
        help: "`true` gives sandboxes the host's package mirrors, proxies and certificate authorities",
    },
    EnvVar {
        name: "SKEP_MAX_SANDBOXES",
        key: "limits.sandboxes",
        help: "sandboxes a team may run at once",
    },
    EnvVar {
        name: "SKEP_MAX_CPUS",
        key: "limits.cpus",
        help: "most CPUs of one sandbox",
    },
    EnvVar {
        name: "SKEP_MAX_MEMORY_MIB",
        key: "limits.memory_mib",
        help: "most memory of one sandbox",
    },
    EnvVar {
        name: "SKEP_MAX_DISK_MIB",
        key: "limits.disk_mib",
        help: "most disk of one sandbox",
    },
    EnvVar {
        name: "SKEP_MAX_PIDS",
        key: "limits.pids",
        help: "most processes and threads of one sandbox",
    },
    EnvVar {
        name: "SKEP_MAX_LIFETIME_HOURS",
        key: "limits.lifetime_hours",
        help: "longest life of a sandbox",
    },
    EnvVar {
        name: "SKEP_ADMISSION",
        key: "admission.enabled",
        help: "`false` takes every sandbox, whether the machine has room for it or not",
    },
    EnvVar {
        name: "SKEP_MEMORY_RESERVE",
        key: "admission.memory_reserve",
        help: "memory that new sandboxes do not get, such as `5%` or `512 MiB`",
    },
    EnvVar {
        name: "SKEP_MEMORY_OVERCOMMIT",
        key: "admission.memory_overcommit",
        help: "how many times the machine's memory the limits of all sandboxes may be",
    },
    EnvVar {
        name: "SKEP_DISK_RESERVE",
        key: "admission.disk_reserve",
        help: "disk that new sandboxes do not get, such as `5%` or `10 GiB`",
    },
    EnvVar {
        name: "SKEP_DISK_OVERCOMMIT",
        key: "admission.disk_overcommit",
        help: "how many times the file system's size the disks of all sandboxes may be",
    },
    EnvVar {
        name: "SKEP_POOL_READY",
        key: "pool.ready",
        help: "spares: running sandboxes of each template that wait for an owner; 0 is none",
    },
    EnvVar {
        name: "SKEP_POOL_DISKS",
        key: "pool.disks",
        help: "mounted disks of each size, and cgroups, that are kept ready for the next sandboxes; 0 is none",
    },
    EnvVar {
        name: "SKEP_POOL_ZYGOTES",
        key: "pool.zygotes",
        help: "whether a warmed kernel of each template that names one is forked into its sandboxes, instead of being started there",
    },
    EnvVar {
        name: "SKEP_POOL_SHARE_ZYGOTES",
        key: "pool.share_zygotes",
        help: "`true` lets teams share the warmed kernels of templates that belong to everybody; without it each team has its own",
    },
    EnvVar {
        name: "SKEP_POOL_MOST_ZYGOTES",
        key: "pool.most_zygotes",
        help: "warmed kernels that are kept at most, of all templates and teams; 1 to 64",
    },
    EnvVar {
        name: "SKEP_POOL_WARM",
        key: "pool.warm",
        help: "templates, with commas between, that are made ready when the server starts, if they are built",
    },
    EnvVar {
        name: "SKEP_MAX_PAUSED",
        key: "limits.paused",
        help: "paused sandboxes of a team that do not count among those that it runs; by default as many as it may run",
    },
    EnvVar {
        name: "SKEP_MAX_SNAPSHOTS",
        key: "limits.snapshots",
        help: "snapshots that a team keeps at most",
    },
    EnvVar {
        name: "SKEP_MAX_SNAPSHOT_GIB",
        key: "limits.snapshot_gib",
        help: "space that the snapshots of a team take at most, in GiB",
    },
    EnvVar {
        name: "SKEP_MAX_VOLUMES",
        key: "limits.volumes",
        help: "volumes that a team keeps at most",
    },
    EnvVar {
        name: "SKEP_MAX_VOLUME_MIB",
        key: "limits.volume_mib",
        help: "size of a volume at most, and of one for which none is asked, in MiB",
    },
    EnvVar {
        name: "SKEP_MAX_BUILDS",
        key: "limits.builds",
        help: "builds of templates that a team runs at a time",
    },
    EnvVar {
        name: "SKEP_SNAPSHOT_DAYS",
        key: "records.snapshot_days",
        help: "days for which a snapshot is kept; 0 is until somebody deletes it",
    },
    EnvVar {
        name: "SKEP_PAUSE_CHECKPOINT_AFTER",
        key: "pause.checkpoint_after",
        help: "seconds after which a paused sandbox is written to the disk and needs no memory any more, where the host can",
    },
    EnvVar {
        name: "SKEP_PAUSE_COMPRESS_AFTER",
        key: "pause.compress_after",
        help: "seconds after which the memory of a paused sandbox that is on the disk is compressed; 0 is never",
    },
    EnvVar {
        name: "SKEP_PAUSE_PAGE_OUT",
        key: "pause.page_out",
        help: "whether memory of sandboxes that stay frozen goes to the host's swap, if there is any",
    },
    EnvVar {
        name: "SKEP_PAUSE_ENCRYPTION_KEY_FILE",
        key: "pause.encryption_key_file",
        help: "file with 64 hexadecimal digits, readable by its owner alone: the key by which memory on the disk is encrypted",
    },
    EnvVar {
        name: "SKEP_VAULT_KEY_FILE",
        key: "vault.key_file",
        help: "file with 64 hexadecimal digits in each line, readable by its owner alone: the keys that seal secrets, the newest first",
    },
    EnvVar {
        name: "SKEP_VAULT_KEY_COMMAND",
        key: "vault.key_command",
        help: "program that prints the same, without arguments",
    },
    EnvVar {
        name: "SKEP_IDENTITY_ISSUER",
        key: "identity.issuer",
        help: "URL of this server as verifiers of identity tokens reach it; that of the API if it is not set",
    },
    EnvVar {
        name: "SKEP_IDENTITY_KEY_DAYS",
        key: "identity.key_days",
        help: "days after which another key signs identity tokens",
    },
    EnvVar {
        name: "SKEP_WEBHOOKS_ALLOWED_HOSTS",
        key: "webhooks.allowed_hosts",
        help: "hosts, with commas between, that webhooks may be at although their addresses are not public",
    },
    EnvVar {
        name: "SKEP_MIRROR",
        key: "mirror.enabled",
        help: "`true` serves a caching mirror of PyPI, npm and Debian to sandboxes",
    },
    EnvVar {
        name: "SKEP_MIRROR_OFFLINE",
        key: "mirror.offline",
        help: "`nothing`, `cached` or `everything`: what sandboxes get from the mirror that may not reach a registry themselves",
    },
    EnvVar {
        name: "SKEP_MCP_DENY_OUT",
        key: "mcp.deny_out",
        help: "addresses and ranges, with commas between, that sandboxes of `/mcp` may not reach",
    },
    // After what is denied: a host by name is allowed only where everything else is denied.
    EnvVar {
        name: "SKEP_MCP_ALLOW_OUT",
        key: "mcp.allow_out",
        help: "addresses, ranges and hosts, with commas between, that sandboxes of `/mcp` may reach, whatever is denied",
    },
    EnvVar {
        name: "SKEP_RECORD_DAYS",
        key: "records.days",
        help: "days for which an ended sandbox is remembered",
    },
    EnvVar {
        name: "SKEP_RECORD_COUNT",
        key: "records.count",
        help: "ended sandboxes that are remembered at most",
    },
    EnvVar {
        name: "SKEP_RECORD_LOG_MIB",
        key: "records.log_mib",
        help: "what is kept at most of the logs of ended sandboxes, in MiB",
    },
    EnvVar {
        name: "SKEP_MAX_DISK_MIB_PER_SECOND",
        key: "limits.disk_mib_per_second",
        help: "how fast one sandbox may read from the disk, and write to it; 0 is as fast as it goes",
    },
    EnvVar {
        name: "SKEP_CONTEXTS_WITHOUT_TOKEN",
        key: "security.contexts_without_token",
        help: "`true` lets callers without a token make contexts, which JavaScript's interpreter SDK before 2.3 needs",
    },
    EnvVar {
        name: "SKEP_REQUIRE_TOKENS",
        key: "security.require_tokens",
        help: "`true` demands the token of every sandbox, `false` lets SDKs 1.x that did not ask for `secure` do without; by default it depends on where the server listens",
    },
    EnvVar {
        name: "OTEL_EXPORTER_OTLP_ENDPOINT",
        key: "traces.endpoint",
        help: "URL of an OpenTelemetry collector that takes traces over HTTP; without it there are none",
    },
    EnvVar {
        name: "OTEL_EXPORTER_OTLP_HEADERS",
        key: "traces.headers",
        help: "headers for the collector, as `name=value,…` with percent-encoded values",
    },
    EnvVar {
        name: "OTEL_SERVICE_NAME",
        key: "traces.service_name",
        help: "the name of this server in traces",
    },
    EnvVar {
        name: "OTEL_TRACES_SAMPLER_ARG",
        key: "traces.sample",
        help: "the part of all traces that is recorded, from 0 to 1, unless the caller has decided",
    },
];
