//! Messages of a kernel.

use crate::{Answer, JsonText};

/// A message and what it belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    /// The id of the request that it answers or that was running; `None` for what happens
    /// between executions.
    pub parent: Option<String>,
    /// Time at which the kernel sent it, in microseconds since 1970; `None` if it did not tell.
    pub time: Option<i64>,
    /// The message itself.
    pub message: Message,
}

/// One thing a kernel can say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// The first message of a kernel of ours.
    Hello {
        /// The version of the protocol it speaks.
        protocol: u64,
        /// Memory in bytes at which the runtime of its language aborts it without a word, if it
        /// does that.
        heap_limit: Option<u64>,
        /// True if it forks copies of itself ([`Request::Fork`]).
        ///
        /// [`Request::Fork`]: crate::frame::Request::Fork
        forks: bool,
    },
    /// It has begun to work on the request.
    Busy,
    /// It has finished the request, and nothing more follows about it.
    Idle,
    /// It is starting anew; every request that was not finished never will be.
    Restarting,
    /// It has accepted the code under this number.
    Input {
        /// Number of executions, this one included.
        count: u64,
    },
    /// Text was printed.
    Text {
        /// Standard output or standard error.
        stream: Stream,
        /// The text, as a JSON string.
        text: JsonText,
    },
    /// A value was displayed.
    Display(Bundle),
    /// A value takes the place of what was displayed under the same id.
    Update(Bundle),
    /// A request to remove the output that the cell has shown until now.
    Clear {
        /// True if that waits until there is something to show instead.
        wait: bool,
    },
    /// The value of the cell.
    Value(Bundle),
    /// An exception ended the cell, or was shown on its way.
    Error {
        /// The class of the exception.
        name: String,
        /// Text of the exception.
        value: String,
        /// The lines of its traceback.
        traceback: Vec<String>,
        /// Kind of the exception, as far as the kernel knows.
        nature: Nature,
    },
    /// The code waits for a line of input.
    InputRequest(InputRequest),
    /// The answer to a request.
    Reply(Reply),
    /// The answer to a question about code.
    Answer(Answer),
    /// A widget's message, or another for which nobody has a use.
    Unused,
    /// The message was larger than can be carried, and was left out.
    TooLarge {
        /// Size of the message.
        bytes: u64,
    },
}

/// Request of code for a line of input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputRequest {
    /// Id that the answer names.
    pub id: String,
    /// Text to show to whoever answers.
    pub prompt: String,
    /// True if the answer must not be shown while it is typed.
    pub is_password: bool,
}

/// Output stream of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// The stream `stdout`.
    Stdout,
    /// The stream `stderr`.
    Stderr,
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// It was done.
    Done {
        /// True if the kernel exits now because the code asked it to.
        exiting: bool,
    },
    /// It failed, which an [`Message::Error`] has told already if code was run.
    Failed {
        /// The class of the error.
        name: String,
        /// Text of the exception.
        value: String,
        /// True if the kernel exits now because the code asked it to.
        exiting: bool,
    },
    /// It was not even begun, because something before it failed.
    Aborted,
}

/// Kind of an exception, whatever its name in the language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nature {
    /// The code could not be parsed.
    Syntax,
    /// The code raised it.
    Runtime,
    /// An interrupt from outside raised it.
    Interrupted,
}

/// Representations of one value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bundle {
    /// Values by media type, in the order in which they came.
    pub entries: Vec<(String, JsonText)>,
    /// Hints for front ends, such as the size of a picture: a JSON object.
    pub metadata: Option<JsonText>,
    /// The name under which it can be updated.
    pub display_id: Option<String>,
}

impl From<Vec<(String, JsonText)>> for Bundle {
    fn from(entries: Vec<(String, JsonText)>) -> Self {
        Self {
            entries,
            ..Self::default()
        }
    }
}
