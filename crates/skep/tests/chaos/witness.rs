//! A sandbox that lives through everything, with a command and a terminal in it.

use std::time::Duration;

use skep_client::{
    Client, ClientError, Command, CommandEvent, CommandStream, NewSandbox, Sandbox, TerminalSize,
};

/// Counts in lines, some twenty a second.
const COUNT: &str = "i=0; while :; do i=$((i+1)); echo $i; sleep 0.05; done";
/// Time limit for any answer; some hosts are emulated.
const EVENT_TIMEOUT: Duration = Duration::from_secs(60);
const SIZE: TerminalSize = TerminalSize { cols: 80, rows: 24 };

/// A sandbox with running state, and the expected progress of that state.
#[derive(Debug)]
pub(crate) struct Witness {
    pub(crate) sandbox: Sandbox,
    counter: u32,
    counted: u64,
    shell: u32,
    sum: u64,
    /// Listens to the counter until the server is gone.
    stream: Option<CommandStream>,
}

impl Witness {
    pub(crate) async fn start(client: &Client) -> Self {
        let body = NewSandbox {
            template_id: "base".to_owned(),
            timeout: Some(7200),
            ..NewSandbox::default()
        };
        let sandbox = client.sandboxes().create(&body).await.unwrap();
        let count = Command::new("sh").args(["-c", COUNT]);
        let mut stream = sandbox.commands().start(count).await.unwrap();
        let counter = started(&mut stream).await;
        let shell = Command::new("bash").args(["--norc"]);
        let mut terminal = sandbox.terminals().open(&shell, SIZE).await.unwrap();
        let shell = started(&mut terminal).await;
        Self {
            sandbox,
            counter,
            counted: 0,
            shell,
            sum: 0,
            stream: Some(stream),
        }
    }

    /// The server is gone: the stream must say that it was cut off, and not that it ended.
    pub(crate) async fn check_cut(&mut self) {
        let mut stream = self.stream.take().expect("it is put back by each check");
        let cut = loop {
            let event = tokio::time::timeout(EVENT_TIMEOUT, stream.next());
            match event.await.expect("a cut stream does not hang") {
                Ok(Some(CommandEvent::Stdout(_))) => {}
                other => break other,
            }
        };
        assert!(cut.as_ref().is_err_and(ClientError::is_lost), "{cut:?}");
    }

    /// Another server serves: both programs have gone on and can be connected to again.
    pub(crate) async fn check(&mut self, client: &Client) {
        self.sandbox = self.sandbox.through(client);
        let commands = self.sandbox.commands();
        let mut stream = commands.attach(self.counter).await.unwrap();
        assert_eq!(started(&mut stream).await, self.counter);
        let counted = next_count(&mut stream).await;
        assert!(counted > self.counted, "{counted} after {}", self.counted);
        self.counted = counted;
        self.stream = Some(stream);
        self.check_terminal().await;
    }

    async fn check_terminal(&mut self) {
        let commands = self.sandbox.commands();
        let mut terminal = commands.attach(self.shell).await.unwrap();
        assert_eq!(started(&mut terminal).await, self.shell);
        self.sum += 1;
        let line = b"x=$((x+1)); echo \"<$x>\"\n";
        let terminals = self.sandbox.terminals();
        terminals.type_in(self.shell, line).await.unwrap();
        let expected = format!("<{}>", self.sum);
        let mut shown = String::new();
        while !shown.contains(&expected) {
            match next(&mut terminal).await {
                CommandEvent::Terminal(bytes) => shown += &String::from_utf8_lossy(&bytes),
                event => panic!("{event:?} after {shown}"),
            }
        }
    }
}

async fn next(stream: &mut CommandStream) -> CommandEvent {
    tokio::time::timeout(EVENT_TIMEOUT, stream.next())
        .await
        .expect("nothing comes")
        .unwrap()
        .expect("the stream goes on")
}

async fn started(stream: &mut CommandStream) -> u32 {
    match next(stream).await {
        CommandEvent::Started(pid) => pid,
        event => panic!("{event:?}"),
    }
}

/// The next whole line of the counter.
async fn next_count(stream: &mut CommandStream) -> u64 {
    let mut said = String::new();
    loop {
        if let [_cut, line, _rest, ..] = said.split('\n').collect::<Vec<_>>()[..] {
            return line.parse().unwrap();
        }
        match next(stream).await {
            CommandEvent::Stdout(bytes) => said += std::str::from_utf8(&bytes).unwrap(),
            event => panic!("{event:?}"),
        }
    }
}
