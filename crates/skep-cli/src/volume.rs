//! `skep volume …`

mod cp;

use clap::Subcommand;
use serde_json::json;
use skep_client::{Client, NewVolume, Volume, VolumeAndToken, VolumeFiles, VolumeOptions};
use skep_client::{VolumeEntry, VolumeEntryKind};

use crate::{
    CliError, DefaultServer, OutputArgs, ServerArgs, print_json, print_line, print_note,
    print_table,
};

pub use cp::VolumeCopyArgs;

/// Subcommands of `skep volume`.
#[derive(Debug, Subcommand)]
pub enum VolumeCommand {
    /// Create a volume, on which sandboxes share files that outlive them
    #[command(after_help = "\
Examples:
  skep volume create data
  skep volume create models --size 4096")]
    Create {
        /// The server to ask
        #[command(flatten)]
        server: ServerArgs,
        /// Name of the volume: letters, digits, `_` and `-`
        name: String,
        /// Size in MB [default: the largest that the server allows]
        #[arg(long, value_name = "MB")]
        size: Option<u32>,
        /// Format of the output
        #[command(flatten)]
        output: OutputArgs,
    },
    /// List volumes
    #[command(after_help = "\
Examples:
  skep volume list
  skep volume list --json")]
    List {
        /// The server to ask
        #[command(flatten)]
        server: ServerArgs,
        /// Format of the output
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Show a volume: its space, and the sandboxes that have it
    #[command(after_help = "\
Examples:
  skep volume info data")]
    Info {
        /// The server to ask
        #[command(flatten)]
        server: ServerArgs,
        /// Name or ID of the volume
        volume: String,
        /// Format of the output
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Copy files to a volume or out of it
    #[command(after_help = cp::EXAMPLES)]
    Cp(VolumeCopyArgs),
    /// List files of a volume
    #[command(after_help = "\
Examples:
  skep volume ls data
  skep volume ls data:/models --depth 3")]
    Ls {
        /// The server to ask
        #[command(flatten)]
        server: ServerArgs,
        /// Volume, with a path after a colon
        #[arg(value_name = "VOLUME[:PATH]")]
        place: String,
        /// Levels of directories to show, 1 to 10
        #[arg(long, default_value_t = 1)]
        depth: u32,
        /// Format of the output
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Delete a volume with everything in it, or files of it
    #[command(after_help = "\
Examples:
  skep volume rm data               the whole volume; refused while a sandbox has it
  skep volume rm data:/old          a file or a directory of it")]
    Rm {
        /// The server to ask
        #[command(flatten)]
        server: ServerArgs,
        /// Volume, or a path of it after a colon
        #[arg(value_name = "VOLUME[:PATH]")]
        place: String,
        /// Format of the output
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Keep a volume as it is now, read-only, under another name
    #[command(after_help = "\
Examples:
  skep volume snapshot data data-monday")]
    Snapshot {
        /// The server to ask
        #[command(flatten)]
        server: ServerArgs,
        /// Name or ID of the volume
        volume: String,
        /// Name of the snapshot
        name: String,
        /// Format of the output
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Make a copy of a volume or of a snapshot that can be written to
    #[command(after_help = "\
Examples:
  skep volume clone data-monday data-try")]
    Clone {
        /// The server to ask
        #[command(flatten)]
        server: ServerArgs,
        /// Name or ID of the volume
        volume: String,
        /// Name of the copy
        name: String,
        /// Format of the output
        #[command(flatten)]
        output: OutputArgs,
    },
}

impl VolumeCommand {
    /// Does it, and returns the exit code.
    ///
    /// # Errors
    ///
    /// [`CliError`] with hints.
    pub async fn run(self, default: &DefaultServer) -> Result<u8, CliError> {
        match self {
            Self::Create {
                server,
                name,
                size,
                output,
            } => {
                let options = VolumeOptions {
                    size_mb: size,
                    ..VolumeOptions::default()
                };
                create(&server.client(default)?, name, options, output).await?;
            }
            Self::List { server, output } => {
                let volumes = server.client(default)?.volumes().list().await?;
                if output.json {
                    print_json(&volumes)?;
                } else {
                    let header = ["id", "name", "size (MB)", "mode", "created (utc)"];
                    print_table(&header, volumes.iter().map(row).collect())?;
                }
            }
            Self::Info {
                server,
                volume,
                output,
            } => {
                let client = server.client(default)?;
                info(&find(&client, &volume).await?, output)?;
            }
            Self::Cp(args) => args.run(default).await?,
            Self::Ls {
                server,
                place,
                depth,
                output,
            } => {
                let client = server.client(default)?;
                let (volume, path) = split(&place);
                let files = open(&client, volume).await?;
                list(&files, path.unwrap_or("/"), depth, output).await?;
            }
            Self::Rm {
                server,
                place,
                output,
            } => remove(&server.client(default)?, &place, output).await?,
            Self::Snapshot {
                server,
                volume,
                name,
                output,
            } => copy(&server.client(default)?, volume, name, true, output).await?,
            Self::Clone {
                server,
                volume,
                name,
                output,
            } => copy(&server.client(default)?, volume, name, false, output).await?,
        }
        Ok(0)
    }
}

async fn copy(
    client: &Client,
    source: String,
    name: String,
    read_only: bool,
    output: OutputArgs,
) -> Result<(), CliError> {
    let options = VolumeOptions {
        source: Some(source),
        read_only,
        ..VolumeOptions::default()
    };
    create(client, name, options, output).await
}

async fn create(
    client: &Client,
    name: String,
    options: VolumeOptions,
    output: OutputArgs,
) -> Result<(), CliError> {
    let skep = Some(options).filter(|options| *options != VolumeOptions::default());
    let made = client.volumes().create(&NewVolume { name, skep }).await?;
    if output.json {
        // Without the token, which opens its files: whoever needs it asks for the volume.
        return print_json(&made.volume);
    }
    print_note(&format!(
        "created {}; a sandbox gets it with volume_mounts={{\"/mnt/{}\": \"{}\"}}",
        made.volume.name, made.volume.name, made.volume.name
    ));
    print_line(&made.volume.volume_id)
}

fn info(found: &VolumeAndToken, output: OutputArgs) -> Result<(), CliError> {
    let volume = &found.volume;
    if output.json {
        return print_json(volume);
    }
    let detail = &volume.skep;
    let users = detail.used_by.as_deref().unwrap_or_default();
    let used = detail.used_bytes.unwrap_or_default();
    let line = |name: &str, value: String| vec![name.to_owned(), value];
    let rows = vec![
        line("id", volume.volume_id.clone()),
        line("name", volume.name.clone()),
        line("size", format!("{} MB", detail.size_mb)),
        line(
            "used",
            format!("{:.1} MB", used as f64 / f64::from(1 << 20)),
        ),
        line("mode", mode(volume).to_owned()),
        line("source", detail.source.clone().unwrap_or("-".to_owned())),
        line("created (utc)", moment(detail.created_at)),
        line(
            "sandboxes",
            if users.is_empty() {
                "-".to_owned()
            } else {
                users.join(" ")
            },
        ),
    ];
    print_table(&["volume", ""], rows)
}

async fn list(
    files: &VolumeFiles,
    path: &str,
    depth: u32,
    output: OutputArgs,
) -> Result<(), CliError> {
    let found = files.stat(path).await?;
    let entries = match found.kind {
        VolumeEntryKind::Directory => files.list(path, depth).await?,
        VolumeEntryKind::File | VolumeEntryKind::Symlink | VolumeEntryKind::Unknown => vec![found],
    };
    if output.json {
        return print_json(&entries);
    }
    let header = ["mode", "owner", "size", "changed (utc)", "path"];
    print_table(&header, entries.iter().map(entry_row).collect())
}

async fn remove(client: &Client, place: &str, output: OutputArgs) -> Result<(), CliError> {
    let (volume, path) = split(place);
    let found = find(client, volume).await?;
    match path {
        Some(path) => client.volumes().files(&found).remove(path).await?,
        None => client.volumes().delete(&found.volume.volume_id).await?,
    }
    if output.json {
        return print_json(&json!({ "volume": found.volume.name, "path": path, "removed": true }));
    }
    print_note(&format!("removed {place}"));
    Ok(())
}

/// The volume with this name or ID.
async fn find(client: &Client, text: &str) -> Result<VolumeAndToken, CliError> {
    let volumes = client.volumes().list().await?;
    let found = volumes
        .iter()
        .find(|volume| volume.name == text || volume.volume_id == text);
    match found {
        Some(volume) => Ok(client.volumes().get(&volume.volume_id).await?),
        None => Err(CliError::input(
            format!("there is no volume `{text}`"),
            "`skep volume list` shows the names of all",
        )),
    }
}

async fn open(client: &Client, text: &str) -> Result<VolumeFiles, CliError> {
    Ok(client.volumes().files(&find(client, text).await?))
}

/// A volume and a path in it, which comes after a colon.
fn split(place: &str) -> (&str, Option<&str>) {
    match place.split_once(':') {
        Some((volume, "")) => (volume, Some("/")),
        Some((volume, path)) => (volume, Some(path)),
        None => (place, None),
    }
}

fn mode(volume: &Volume) -> &'static str {
    if volume.skep.read_only {
        "read-only"
    } else {
        "read-write"
    }
}

fn moment(time: jiff::Timestamp) -> String {
    time.strftime("%Y-%m-%d %H:%M:%S").to_string()
}

fn row(volume: &Volume) -> Vec<String> {
    vec![
        volume.volume_id.clone(),
        volume.name.clone(),
        volume.skep.size_mb.to_string(),
        mode(volume).to_owned(),
        moment(volume.skep.created_at),
    ]
}

fn entry_row(entry: &VolumeEntry) -> Vec<String> {
    let path = match (&entry.target, entry.kind) {
        (Some(target), _) => format!("{} -> {target}", entry.path),
        (None, VolumeEntryKind::Directory) => format!("{}/", entry.path),
        (None, _) => entry.path.clone(),
    };
    vec![
        format!("{:03o}", entry.mode),
        format!("{}:{}", entry.uid, entry.gid),
        entry.size.to_string(),
        moment(entry.mtime),
        path,
    ]
}
