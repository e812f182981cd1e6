//! The history of a context as a notebook, and outputs in Jupyter's form.

use http::{Request, StatusCode};
use serde_json::{Value, json};

use crate::caller::{Interpreter, interpreter, lines};

async fn context(interpreter: &Interpreter) -> String {
    let (_, body) = interpreter.call("GET", "/contexts").await;
    let contexts: Value = serde_json::from_str(&body).unwrap();
    contexts[0]["id"].as_str().unwrap().to_owned()
}

async fn notebook(interpreter: &Interpreter) -> Value {
    let path = format!("/contexts/{}/notebook", context(interpreter).await);
    let (status, body) = interpreter.call("GET", &path).await;
    assert_eq!(status, StatusCode::OK);
    serde_json::from_str(&body).unwrap()
}

/// Returns what a person sees of a cell.
fn seen(cell: &Value) -> Value {
    let source: String = serde_json::from_value::<Vec<String>>(cell["source"].clone())
        .unwrap()
        .concat();
    if cell["cell_type"] == "markdown" {
        return json!(source);
    }
    let outputs = cell["outputs"].as_array().unwrap().iter().map(|output| {
        match output["output_type"].as_str().unwrap() {
            "stream" => output["text"].clone(),
            "error" => output["ename"].clone(),
            _ => output["data"].clone(),
        }
    });
    json!([cell["execution_count"], source, outputs.collect::<Vec<_>>()])
}

fn all_seen(notebook: &Value) -> Vec<Value> {
    notebook["cells"]
        .as_array()
        .unwrap()
        .iter()
        .map(seen)
        .collect()
}

#[tokio::test]
async fn what_was_run_is_in_the_notebook_with_every_restart() {
    let interpreter = interpreter();
    interpreter.run("say one\nsay two\nvalue 'x'").await;
    interpreter.run("raise ValueError no").await;
    interpreter.run("die 3").await;
    interpreter.run("say after").await;
    let path = format!("/contexts/{}/restart", context(&interpreter).await);
    interpreter.call("POST", &path).await;
    // Whoever looks whether there is a kernel leaves no cell.
    interpreter.run("").await;
    let notebook = notebook(&interpreter).await;
    assert_eq!(
        all_seen(&notebook),
        [
            json!([1, "say one\nsay two\nvalue 'x'", [["one\n", "two\n"], {"text/plain": ["'x'"]}]]),
            json!([2, "raise ValueError no", ["ValueError"]]),
            json!([3, "die 3", ["ContextRestarting"]]),
            json!(
                "*The kernel was restarted here: it ended with exit status 3. What was defined above was lost.*"
            ),
            json!([1, "say after", [["after\n"]]]),
            json!(
                "*The kernel was restarted here: somebody asked for it. What was defined above was lost.*"
            ),
        ]
    );
    assert_eq!(notebook["metadata"]["kernelspec"]["name"], "python3");
    let timing = &notebook["cells"][0]["metadata"]["execution"];
    for moment in ["iopub.status.busy", "shell.execute_reply"] {
        assert!(timing[moment].as_str().unwrap() > "2026", "{timing}");
    }
}

#[tokio::test]
async fn a_context_where_nothing_happened_is_an_empty_notebook() {
    let interpreter = interpreter();
    assert_eq!(notebook(&interpreter).await["cells"], json!([]));
}

#[tokio::test]
async fn secrets_are_not_in_the_notebook_not_even_in_the_code() {
    let interpreter = interpreter();
    let body =
        json!({"code": "say it is geheimnis\nmutter geheim", "skep": {"secrets": ["geheimnis"]}});
    lines(interpreter.execute(body, None).await.into_body()).await;
    assert_eq!(
        all_seen(&notebook(&interpreter).await),
        [json!([
            1,
            "say it is ***\nmutter geheim",
            [["it is ***\n", "geheim"]]
        ])]
    );
}

#[tokio::test]
async fn only_who_may_run_code_may_read_what_was_run() {
    let interpreter = interpreter();
    let path = format!("/contexts/{}/notebook", context(&interpreter).await);
    let request = Request::builder()
        .uri(path)
        .body(String::new().into())
        .unwrap();
    assert_eq!(
        interpreter.send(request).await.status(),
        StatusCode::UNAUTHORIZED
    );
    let (status, body) = interpreter.call("GET", "/contexts/nowhere/notebook").await;
    assert_eq!(
        (status, body.as_str()),
        (StatusCode::NOT_FOUND, "Context nowhere not found")
    );
}

#[tokio::test]
async fn outputs_come_in_the_form_that_is_asked_for() {
    let interpreter = interpreter();
    let body = json!({"code": "say a\nvalue 'x'\nraise E t", "skep": {"outputs": "jupyter"}});
    let lines = lines(interpreter.execute(body, None).await.into_body()).await;
    let output = |output: Value| json!({"type": "output", "output": output});
    let mut error =
        output(json!({"output_type": "error", "ename": "E", "evalue": "t", "traceback": ["E: t"]}));
    error["kind"] = json!("runtime");
    assert_eq!(
        lines,
        [
            json!({"type": "number_of_executions", "execution_count": 1}),
            output(json!({"output_type": "stream", "name": "stdout", "text": "a\n"})),
            output(json!({"output_type": "execute_result", "data": {"text/plain": "'x'"}})),
            error,
            json!({"type": "end_of_execution"}),
        ]
    );
    let body = json!({"code": "", "skep": {"outputs": "html"}});
    let refused = interpreter.execute(body, None).await;
    assert_eq!(refused.status(), StatusCode::UNPROCESSABLE_ENTITY);
}
