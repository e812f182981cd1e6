//! `skep sandbox metrics`

use std::time::Duration;

use clap::Args;
use skep_client::Client;
use skep_wire::rest::Metric;

use super::{Among, id, whole_id};
use crate::{
    CliError, DefaultServer, OutputArgs, ServerArgs, print_json, print_json_line, print_line,
    print_note, print_table,
};

/// Polling interval of a followed sandbox.
const INTERVAL: Duration = Duration::from_secs(1);
const HEADER: &[&str] = &[
    "time (utc)",
    "cpu",
    "cpu time",
    "memory",
    "average",
    "peak",
    "disk",
    "read",
    "written",
    "received",
    "sent",
];

/// Arguments of `skep sandbox metrics`.
#[derive(Debug, Args)]
pub struct MetricsArgs {
    /// The server to ask
    #[command(flatten)]
    server: ServerArgs,
    /// ID of the sandbox
    id: String,
    /// Follow until the sandbox ends
    #[arg(long, short)]
    follow: bool,
    /// Format of the output
    #[command(flatten)]
    output: OutputArgs,
}

impl MetricsArgs {
    pub(super) async fn run(self, default: &DefaultServer) -> Result<u8, CliError> {
        let client = self.server.client(default)?;
        let id = whole_id(&client, &self.id, Among::All).await?;
        if self.follow {
            return follow_points(&client, &id, self.output).await;
        }
        show_points(&client, &id, self.output).await
    }
}

async fn show_points(client: &Client, id: &str, output: OutputArgs) -> Result<u8, CliError> {
    let points = points(client, id).await?;
    if output.json {
        print_json(&points)?;
    } else if points.is_empty() {
        id::record(client, id).await?;
        print_note("it is not running; `skep sandbox info` shows what it used");
        return Ok(1);
    } else {
        print_table(HEADER, points.iter().map(row).collect())?;
    }
    Ok(0)
}

async fn follow_points(client: &Client, id: &str, output: OutputArgs) -> Result<u8, CliError> {
    let mut widths = Vec::new();
    loop {
        let points = points(client, id).await?;
        let Some(point) = points.last() else {
            print_note("it is not running");
            return Ok(0);
        };
        if output.json {
            print_json_line(point)?;
        } else {
            let row = row(point);
            if widths.is_empty() {
                widths = columns(&row);
                let header: Vec<_> = HEADER.iter().map(|name| name.to_uppercase()).collect();
                print_line(&aligned(&header, &widths))?;
            }
            print_line(&aligned(&row, &widths))?;
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

async fn points(client: &Client, id: &str) -> Result<Vec<Metric>, CliError> {
    Ok(client.sandbox(id).metrics().await?)
}

fn row(point: &Metric) -> Vec<String> {
    let of = |used: u64, total: u64| format!("{} of {} MiB", mebibytes(used), mebibytes(total));
    vec![
        point.timestamp.strftime("%Y-%m-%d %H:%M:%S").to_string(),
        format!("{:.1} % of {}", point.cpu_used_pct, point.cpu_count),
        format!("{:.2} s", point.cpu_seconds),
        of(point.mem_used, point.mem_total),
        format!("{} MiB", mebibytes(point.mem_average)),
        format!("{} MiB", mebibytes(point.mem_peak)),
        of(point.disk_used, point.disk_total),
        format!("{} KiB", point.disk_read.div_ceil(1024)),
        format!("{} KiB", point.disk_written.div_ceil(1024)),
        format!("{} KiB", point.net_received.div_ceil(1024)),
        format!("{} KiB", point.net_sent.div_ceil(1024)),
    ]
}

/// Widths that fit the header and the first row, with room for a digit more.
fn columns(row: &[String]) -> Vec<usize> {
    let width = |(name, value): (&&str, &String)| (value.chars().count() + 1).max(name.len());
    HEADER.iter().zip(row).map(width).collect()
}

fn aligned(cells: &[String], widths: &[usize]) -> String {
    let cell = |(cell, width): (&String, &usize)| format!("{cell:width$}");
    let line: Vec<_> = cells.iter().zip(widths).map(cell).collect();
    line.join("  ").trim_end().to_owned()
}

fn mebibytes(bytes: u64) -> u64 {
    bytes.div_ceil(1024 * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_tells_what_is_used_of_what_there_is() {
        let point = Metric {
            timestamp: jiff::Timestamp::UNIX_EPOCH,
            timestamp_unix: 0,
            cpu_count: 2,
            cpu_used_pct: 12.345,
            mem_used: 3 << 20,
            mem_total: 1 << 30,
            mem_cache: 1,
            disk_used: 5 << 20,
            disk_total: 10 << 30,
            net_received: 1025,
            net_sent: 0,
            cpu_seconds: 1.5,
            mem_peak: 4 << 20,
            mem_average: 2 << 20,
            disk_read: 1024,
            disk_written: 2049,
        };
        assert_eq!(
            row(&point).join("|"),
            "1970-01-01 00:00:00|12.3 % of 2|1.50 s|3 of 1024 MiB|2 MiB|4 MiB|5 of 10240 MiB|1 KiB|3 KiB|2 KiB|0 KiB"
        );
    }
}
