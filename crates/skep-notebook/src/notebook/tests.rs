use proptest::prelude::*;
use serde_json::{Map, Value, json};
use skep_jupyter::{Bundle, JsonText, Nature, Output, Raised, Stream, Transcript};

use super::*;
use crate::cell::Timing;

fn read(notebook: &Value) -> Notebook {
    Notebook::read(&notebook.to_string()).unwrap()
}

fn written(notebook: &Notebook) -> Value {
    serde_json::from_str(&notebook.write()).unwrap()
}

fn notebook(minor: u64, cells: &Value) -> Value {
    json!({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": minor})
}

fn code(source: &str) -> Value {
    json!({"cell_type": "code", "execution_count": null, "metadata": {}, "outputs": [], "source": source})
}

fn bundle(entries: &[(&str, Value)]) -> Bundle {
    let entry = |(mime, value): &(&str, Value)| ((*mime).to_owned(), JsonText::of(value).unwrap());
    Bundle::from(entries.iter().map(entry).collect::<Vec<_>>())
}

fn text(stream: Stream, text: &str) -> Output {
    let text = JsonText::string(text);
    Output::Text { stream, text }
}

/// One of each kind of output.
fn transcript() -> Transcript {
    let picture = Bundle {
        metadata: Some(JsonText::of(&json!({"image/png": {"width": 5}})).unwrap()),
        display_id: Some("d".to_owned()),
        ..bundle(&[
            ("image/png", json!("iVBORw0KGgo=")),
            ("text/plain", json!("<Figure>")),
            ("e2b/chart", json!({"type": "line"})),
        ])
    };
    let outputs = [
        text(Stream::Stdout, "one\ntwo"),
        text(Stream::Stdout, " three\nü"),
        text(Stream::Stderr, "careful\n"),
        Output::Rich {
            bundle: picture,
            is_main: false,
        },
        Output::Rich {
            bundle: bundle(&[
                ("application/vnd.vega+json", json!({"mark": "bar"})),
                ("image/svg+xml", json!("<svg>\n</svg>")),
                ("application/x-foo", json!({"a": [1]})),
                ("text/html", json!(null)),
            ]),
            is_main: true,
        },
        Output::Raised(Raised {
            name: "ValueError".to_owned(),
            value: "no".to_owned(),
            traceback: vec![
                "\u{1b}[31mValueError\u{1b}[0m".to_owned(),
                "line\n2".to_owned(),
            ],
            nature: Nature::Runtime,
        }),
    ];
    let mut transcript = Transcript::default();
    outputs.iter().for_each(|output| transcript.push(output));
    transcript
}

const TIMING: Timing = Timing {
    started: Some(1_794_765_138_228_274),
    accepted: Some(1_794_765_138_229_000),
    ended: Some(1_794_765_139_000_000),
};

#[test]
fn a_cell_that_was_run_looks_as_jupyter_writes_it() {
    let old = json!([{
        "cell_type": "code", "execution_count": 9, "id": "first",
        "metadata": {"tags": ["a"], "execution": {"old": 1}, "collapsed": false},
        "outputs": [{"output_type": "stream", "name": "stdout", "text": "old"}],
        "source": ["print(1)\n", "2"],
    }]);
    let mut notebook = read(&notebook(5, &old));
    notebook.cells_mut()[0].clear();
    notebook.cells_mut()[0].record(&transcript(), Some(3), TIMING);
    insta::assert_snapshot!(notebook.write());
}

#[test]
fn what_a_new_notebook_looks_like() {
    let mut cell = Cell::code("1 + 1");
    let mut two = Transcript::default();
    two.push(&Output::Rich {
        bundle: bundle(&[("text/plain", json!("2"))]),
        is_main: true,
    });
    two.leave_out(5);
    cell.record(&two, Some(1), Timing::default());
    let cells = [Cell::markdown("# A\n\ntext").numbered(0), cell.numbered(1)];
    let pieces = Notebook::pieces(&Language::named("python"), cells.into_iter());
    let text: String = pieces.collect();
    assert_eq!(Notebook::read(&text).unwrap().write(), text);
    insta::assert_snapshot!(text);
    let empty: String = Notebook::pieces(&Language::named("r"), std::iter::empty()).collect();
    assert_eq!(Notebook::read(&empty).unwrap().cells().len(), 0);
}

#[test]
fn a_list_is_shown_as_text_and_json_that_was_asked_for_as_json() {
    let shown = |entries: &[(&str, Value)]| {
        let mut transcript = Transcript::default();
        let bundle = bundle(entries);
        transcript.push(&Output::Rich {
            bundle,
            is_main: true,
        });
        let mut cell = Cell::code("");
        cell.record(&transcript, None, Timing::default());
        let text: String =
            Notebook::pieces(&Language::named("python"), std::iter::once(cell)).collect();
        let notebook: Value = serde_json::from_str(&text).unwrap();
        let data = notebook["cells"][0]["outputs"][0]["data"]
            .as_object()
            .unwrap()
            .clone();
        data.keys().cloned().collect::<Vec<_>>()
    };
    let json = ("application/json", json!([1]));
    assert_eq!(
        shown(&[("text/plain", json!("[1]")), json.clone()]),
        ["text/plain"]
    );
    assert_eq!(
        shown(&[
            ("text/plain", json!("<IPython.core.display.JSON object>")),
            json.clone()
        ]),
        ["application/json", "text/plain"]
    );
    assert_eq!(
        shown(&[
            ("text/plain", json!("{}")),
            json,
            ("text/html", json!("<i>"))
        ]),
        ["application/json", "text/html", "text/plain"]
    );
}

#[test]
fn other_versions_and_other_files_are_refused() {
    let refused = |text: &str| Notebook::read(text).unwrap_err().to_string();
    let old = json!({"nbformat": 3, "nbformat_minor": 0, "worksheets": [], "metadata": {}});
    assert_eq!(
        refused(&old.to_string()),
        "it is a notebook of version 3; only version 4 can be read"
    );
    assert_eq!(
        refused("{}"),
        "it has no `nbformat`, which every notebook has"
    );
    assert_eq!(
        refused(r#"{"nbformat": 4}"#),
        "it has no `cells`, which every notebook has"
    );
    assert_eq!(refused("print(1)"), "it is not JSON, as a notebook is");
    let cells = json!([code("1"), {"source": ""}]);
    assert_eq!(
        refused(&notebook(4, &cells).to_string()),
        "cell 2 cannot be read"
    );
}

#[test]
fn careless_writers_are_forgiven() {
    let text = "\u{feff}{\"nbformat\": 4, \"cells\": [{\"cell_type\": \"code\"}]}";
    let notebook = Notebook::read(text).unwrap();
    assert_eq!(
        written(&notebook),
        json!({
            "cells": [{"cell_type": "code", "execution_count": null, "metadata": {}, "outputs": []}],
            "metadata": {}, "nbformat": 4, "nbformat_minor": 0,
        })
    );
}

#[test]
fn the_minor_version_is_kept_unless_the_cells_are_of_a_later_one() {
    let minor =
        |minor, cells: Value| written(&read(&notebook(minor, &cells)))["nbformat_minor"].clone();
    assert_eq!(minor(2, json!([code("1")])), 2);
    assert_eq!(minor(7, json!([code("1")])), 7);
    let attached =
        json!([{"cell_type": "markdown", "metadata": {}, "source": "", "attachments": {}}]);
    assert_eq!(minor(0, attached), 1);
    let mut with_id = code("1");
    with_id["id"] = json!("a");
    let raised = written(&read(&notebook(4, &json!([code("1"), with_id]))));
    assert_eq!(raised["nbformat_minor"], 5);
    assert_eq!(raised["cells"][1]["id"], "a");
    assert_eq!(raised["cells"][0]["id"].as_str().map(str::len), Some(8));
}

#[test]
fn cells_of_the_newest_version_have_good_ids_that_stay_the_same() {
    let ids = |cells: &Value| -> Vec<String> {
        let notebook = read(&notebook(5, cells));
        notebook
            .cells()
            .iter()
            .map(|cell| cell.id().unwrap())
            .collect()
    };
    let mut cells = json!([code("1"), code("1"), code("1"), code("1")]);
    cells[1]["id"] = json!("taken");
    cells[2]["id"] = json!("taken");
    cells[3]["id"] = json!("no good!");
    let first = ids(&cells);
    assert_eq!(first[1], "taken");
    assert!(first.iter().all(|id| is_id(id)), "{first:?}");
    assert_eq!(first.iter().collect::<HashSet<_>>().len(), 4);
    assert_eq!(ids(&cells), first);
}

#[test]
fn parameters_follow_their_defaults_and_replace_earlier_ones() {
    let language = Language::named("python");
    let mut defaults = code("a = 1");
    defaults["metadata"] = json!({"tags": ["parameters"]});
    let text = json!({"cell_type": "markdown", "metadata": {}, "source": "# t"});
    let sources = |notebook: &Notebook| -> Vec<String> {
        notebook
            .cells()
            .iter()
            .map(|cell| cell.source().to_owned())
            .collect()
    };
    let mut with_defaults = read(&notebook(4, &json!([text, defaults, code("a")])));
    for value in ["a=2", "a=x"] {
        let parameter = value.parse().unwrap();
        with_defaults
            .set_parameters(&[parameter], &language)
            .unwrap();
    }
    assert_eq!(
        sources(&with_defaults),
        ["# t", "a = 1", "# Parameters\na = \"x\"", "a"]
    );
    let mut without = read(&notebook(5, &json!([text, code("a")])));
    without
        .set_parameters(&["a=2".parse().unwrap()], &language)
        .unwrap();
    assert_eq!(sources(&without), ["# t", "# Parameters\na = 2", "a"]);
    assert!(without.cells().iter().all(|cell| cell.id().is_some()));
}

/// Any JSON, with numbers that nobody computes with.
fn any_json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("12345678901234567890123456789".to_owned()),
        Just("1.50E+400".to_owned()),
        any::<i64>().prop_map(|number| number.to_string()),
        ".{0,8}".prop_map(|text| Value::String(text).to_string()),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        let list = proptest::collection::vec(inner.clone(), 0..4);
        let object = proptest::collection::btree_map("[a-z\\\\\"]{0,6}", inner, 0..4);
        prop_oneof![
            list.prop_map(|items| format!("[ {} ]", items.join(" ,\n"))),
            object.prop_map(|entries| {
                let entry =
                    |(name, value): (&String, &String)| format!("{} :\t{value}", json!(name));
                format!(
                    "{{{}}}",
                    entries.iter().map(entry).collect::<Vec<_>>().join(",")
                )
            }),
        ]
    })
}

/// JSON without the blanks between its tokens, by which two texts are compared to the letter.
fn squeezed(text: &str) -> String {
    let mut result = String::new();
    let (mut inside, mut escaped) = (false, false);
    for character in text.chars() {
        if inside {
            inside = escaped || character != '"';
            escaped = !escaped && character == '\\';
        } else if character.is_ascii_whitespace() {
            continue;
        } else {
            inside = character == '"';
        }
        result.push(character);
    }
    result
}

proptest! {
    #[test]
    fn what_is_read_and_written_is_the_same_to_the_letter(unknown in any_json(), metadata in any_json(), output in any_json()) {
        let text = format!(
            "{{\"cells\": [{{\"cell_type\":\"markdown\",\"id\":\"a\",\"zzz\":{unknown},\"metadata\":{metadata},\"source\":[\"\u{e9}\\n\",\"\\u00e9\"]}},\
             {{\"attachments\":{unknown},\"cell_type\":\"code\",\"execution_count\":null,\"id\":\"b\",\"metadata\":{{\"x\":{metadata}}},\"outputs\":[{output}],\"source\":\"1\"}}],\
             \"metadata\":{{\"widgets\":{unknown}}},\"nbformat\":4,\"nbformat_minor\":5,\"more\":{output}}}"
        );
        let once = Notebook::read(&text).unwrap().write();
        prop_assert_eq!(squeezed(&once), squeezed(&text));
        prop_assert_eq!(Notebook::read(&once).unwrap().write(), once);
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "[\\[\\]{}\":,a-z0-9\\\\ ]{0,40}") {
        drop(Notebook::read(&text));
        let cells = format!("{{\"nbformat\":4,\"cells\":[{text}]}}");
        drop(Notebook::read(&cells));
    }

    #[test]
    fn an_output_survives_the_way_to_a_caller(data in "\\PC{0,12}", name in "[a-z]{1,6}", wait in any::<bool>()) {
        let said = |value: Value| crate::read_output(value).unwrap();
        let text = Output::Text { stream: Stream::Stderr, text: JsonText::string(&data) };
        prop_assert_eq!(said(json!({"output_type": "stream", "name": "stderr", "text": data})), text);
        prop_assert_eq!(said(json!({"output_type": "clear_output", "wait": wait})), Output::Cleared { wait });
        let mut metadata = Map::new();
        metadata.insert(name.clone(), json!(data));
        let shown = Bundle {
            display_id: Some(name.clone()),
            metadata: Some(JsonText::of(&metadata).unwrap()),
            ..bundle(&[("text/plain", json!(data))])
        };
        let value = json!({
            "output_type": "update_display_data", "data": {"text/plain": data},
            "metadata": metadata, "transient": {"display_id": name},
        });
        prop_assert_eq!(said(value), Output::Updated(shown));
    }
}
