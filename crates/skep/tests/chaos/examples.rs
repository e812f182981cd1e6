//! The example of the Rust client, as it is pasted.

#[path = "../../../skep-client/examples/sandbox.rs"]
#[expect(dead_code, reason = "its `main` is for people")]
mod sandbox;

use crate::installation::{INTERPRETER, Installation};

#[tokio::test(flavor = "multi_thread")]
async fn the_example_of_the_client_does_what_it_says() {
    let installation = Installation::start_with_interpreter();
    let lines = sandbox::tour(&installation.client(), INTERPRETER)
        .await
        .unwrap();
    assert_eq!(
        lines,
        [
            "command: hello (3)",
            "file: 6 bytes",
            "code: 6",
            "exception: ZeroDivisionError",
            "uses memory: true",
        ]
    );
}
