use proptest::prelude::*;
use skep_jupyter::{Bundle, JsonText, Shown, Stream};

use super::*;

const KIB: usize = 1 << 10;

/// A thousandth of the usual one.
fn small() -> Budget {
    Budget {
        each: 16 * KIB,
        together: 64 * KIB,
        code: KIB,
        used: Arc::default(),
    }
}

fn printed(bytes: usize) -> Output {
    Output::Text {
        stream: Stream::Stdout,
        text: JsonText::string(&"x".repeat(bytes)),
    }
}

fn displayed(id: &str, text: &str) -> Bundle {
    Bundle {
        display_id: Some(id.to_owned()),
        ..Bundle::from(vec![("text/plain".to_owned(), JsonText::string(text))])
    }
}

fn run(history: &mut History, code: &str, outputs: &[Output]) {
    history.begin(code, Some(1));
    outputs
        .iter()
        .for_each(|output| history.output(output, None));
    history.end(None, Some(2));
}

fn cells(history: &History) -> Vec<&PastCell> {
    let cells = history.entries.iter().filter_map(|past| match &**past {
        Past::Cell(cell) => Some(cell),
        Past::Restarted { .. } | Past::RolledBack { .. } | Past::Forked { .. } => None,
    });
    cells.collect()
}

#[test]
fn the_outputs_of_the_oldest_cells_go_first_and_leave_a_trace() {
    let mut history = History::new(&small());
    for number in 0..5 {
        run(&mut history, &format!("cell {number}"), &[printed(4800)]);
    }
    let kept: Vec<bool> = cells(&history)
        .iter()
        .map(|cell| cell.transcript.left_out() == 0)
        .collect();
    assert_eq!(kept, [false, false, true, true, true]);
    assert!(cells(&history)[0].transcript.left_out() >= 4800);
    assert_eq!(
        (history.forgotten, cells(&history)[0].code.as_str()),
        (0, "cell 0")
    );
}

#[test]
fn an_endless_cell_is_kept_from_its_beginning_and_older_ones_give_way() {
    let mut history = History::new(&small());
    run(&mut history, "old", &[printed(100)]);
    history.begin("endless", None);
    for _ in 0..300 {
        history.output(&printed(64), None);
    }
    assert!(history.bytes <= 16 * KIB);
    let last = cells(&history).pop().unwrap();
    assert!(last.transcript.bytes() > 15 * KIB);
    assert!(last.transcript.left_out() > 2 * KIB as u64);
}

#[test]
fn an_output_that_is_too_large_for_any_history_costs_nothing_else() {
    let mut history = History::new(&small());
    run(&mut history, "old", &[printed(100)]);
    run(&mut history, "large", &[printed(16 * KIB + 1)]);
    assert_eq!(cells(&history)[0].transcript.left_out(), 0);
    assert!(cells(&history)[1].transcript.left_out() > 16 * KIB as u64);
}

#[test]
fn very_many_cells_push_out_the_oldest() {
    let mut history = History::new(&small());
    let code = "x".repeat(KIB + 5);
    for _ in 0..20 {
        run(&mut history, &code, &[]);
    }
    assert!(history.forgotten >= 4 && history.bytes <= 16 * KIB);
    assert_eq!(cells(&history)[0].code_left_out, 5);
}

#[test]
fn an_update_reaches_earlier_cells() {
    let mut history = History::new(&small());
    let bundle = displayed("a", "old");
    let display = Output::Rich {
        bundle,
        is_main: false,
    };
    run(&mut history, "one", &[display]);
    run(
        &mut history,
        "two",
        &[Output::Updated(displayed("a", "new"))],
    );
    let Shown::Rich { bundle, .. } = &cells(&history)[0].transcript.shown()[0] else {
        panic!("it is a display");
    };
    assert_eq!(bundle.entries[0].1.as_str(), "\"new\"");
}

#[test]
fn contexts_share_what_there_is_and_give_it_back() {
    let budget = small();
    let history = || History::new(&budget);
    let mut all: Vec<History> = (0..6).map(|_| history()).collect();
    for history in &mut all {
        run(history, "a", &[printed(14 * KIB)]);
    }
    let kept = all
        .iter()
        .filter(|history| cells(history)[0].transcript.left_out() == 0);
    assert_eq!(kept.count(), 4);
    assert!(budget.used.load(Ordering::Relaxed) <= 64 * KIB);
    drop(all);
    assert_eq!(budget.used.load(Ordering::Relaxed), 0);
}

#[test]
fn a_history_without_executions_takes_no_memory() {
    let history = History::new(&small());
    assert_eq!((history.entries.capacity(), history.bytes), (0, 0));
}

fn any_output() -> impl Strategy<Value = Output> {
    let size = prop_oneof![1..200_usize, Just(3 * KIB), Just(9 * KIB)];
    prop_oneof![
        size.prop_map(printed),
        "[ab]".prop_map(|id| Output::Rich {
            bundle: displayed(&id, "x"),
            is_main: false
        }),
        ("[ab]", 1..3_usize)
            .prop_map(|(id, size)| { Output::Updated(displayed(&id, &"y".repeat(size * KIB))) }),
        any::<bool>().prop_map(|wait| Output::Cleared { wait }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn the_account_is_right_and_never_over_the_limit(cells in proptest::collection::vec(proptest::collection::vec(any_output(), 0..5), 1..8)) {
        let mut history = History::new(&small());
        for outputs in &cells {
            run(&mut history, "code", outputs);
            let weights: usize = history.entries.iter().map(|past| weight(past)).sum();
            prop_assert_eq!(history.bytes, weights);
            prop_assert_eq!(history.budget.used.load(Ordering::Relaxed), weights);
            prop_assert!(history.bytes <= 16 * KIB);
        }
    }
}
