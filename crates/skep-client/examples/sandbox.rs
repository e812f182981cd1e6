//! A sandbox from its creation to its end: a command, a file, code, and what it used.
//!
//! ```text
//! E2B_API_KEY=e2b_… E2B_API_URL=http://127.0.0.1:3000 cargo run -p skep-client --example sandbox
//! ```

use std::error::Error;

use skep_client::{Client, ClientError, ContextRef, NewSandbox, RunOptions, Sandbox};

#[tokio::main]
#[expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a program to paste reads its environment and prints"
)]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::var("E2B_API_URL")?;
    let client = Client::new(&url, &std::env::var("E2B_API_KEY")?)?;
    for line in tour(&client, "code-interpreter-slim").await? {
        println!("{line}");
    }
    Ok(())
}

/// Uses a new sandbox of `template`, and says what happened.
pub(crate) async fn tour(client: &Client, template: &str) -> Result<Vec<String>, ClientError> {
    let new = NewSandbox {
        template_id: template.to_owned(),
        timeout: Some(60),
        ..NewSandbox::default()
    };
    let sandbox = client.sandboxes().create(&new).await?;
    let used = use_it(&sandbox).await;
    // Whatever happened: nobody waits for its timeout.
    sandbox.kill().await?;
    used
}

async fn use_it(sandbox: &Sandbox) -> Result<Vec<String>, ClientError> {
    let mut lines = Vec::new();

    let output = sandbox.commands().run("echo hello; exit 3").await?;
    lines.push(format!(
        "command: {} ({})",
        output.stdout_text().trim(),
        output.code
    ));

    sandbox.files().write("numbers.txt", "1\n2\n3\n").await?;
    let numbers = sandbox.files().read("numbers.txt").await?;
    lines.push(format!("file: {} bytes", numbers.len()));

    // Variables stay from one execution to the next, in the default context of the language.
    let python = sandbox.interpreter(ContextRef::Language("python"));
    let options = RunOptions::default();
    let read = "numbers = [int(line) for line in open('numbers.txt')]";
    python.execute(read, &options).await?.output().await?;
    let summed = python.execute("print(sum(numbers))", &options).await?;
    lines.push(format!("code: {}", summed.output().await?.stdout.trim()));

    // An exception is not an error of the call.
    let failed = python.execute("1 / 0", &options).await?.output().await?;
    if let Some(raised) = failed.error {
        lines.push(format!("exception: {}", raised.name));
    }

    let metrics = sandbox.metrics().await?;
    let has_memory = metrics.last().is_some_and(|metric| metric.mem_used > 0);
    lines.push(format!("uses memory: {has_memory}"));
    Ok(lines)
}
