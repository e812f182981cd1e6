//! Limits of an execution, and the usage it reports.

use std::sync::atomic::Ordering;
use std::time::Duration;

use skep_kernels::{ExecuteRequest, Limits, Moved, Receipt, Spent, Update, Usage};
use skep_testkit::wait_until;
use tokio::sync::mpsc::error::TryRecvError;

use crate::talk::{World, all, next, request, world};

fn limited(limits: Limits, code: &str) -> ExecuteRequest {
    ExecuteRequest {
        limits,
        ..request(code)
    }
}

fn seen(world: &World, usage: Usage) {
    *world.kernels.meter.usage.lock() = usage;
}

async fn receipt(world: &World, request: ExecuteRequest) -> Receipt {
    let mut execution = world.execute(request);
    loop {
        match execution.updates.recv().await {
            Some(Update::Ended(receipt)) => return receipt,
            Some(_) => {}
            None => panic!("it ended without a receipt"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn processor_time_over_its_limit_ends_code_with_one_error() {
    let world = world();
    let limits = Limits {
        processor: Some(Duration::from_secs(3)),
        ..Limits::default()
    };
    let request = limited(limits, "wait");
    let mut execution = world.execute(request);
    assert_eq!(next(&mut execution).await.as_deref(), Some("accepted 1"));
    // An hour in which it sleeps is no processor time.
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let nothing = execution.updates.try_recv();
    assert_eq!(nothing.unwrap_err(), TryRecvError::Empty);
    seen(
        &world,
        Usage {
            processor: Duration::from_secs(3),
            ..Usage::default()
        },
    );
    assert_eq!(
        all(execution).await,
        [
            "failed OverLimit { limit: Processor(3s), state_lost: false }",
            "ended Timeout"
        ]
    );
    assert_eq!(world.kernels.meter.kills.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn what_code_over_its_limit_started_is_killed_with_its_kernel() {
    let world = world();
    let limits = Limits {
        time: Some(Duration::from_secs(1)),
        ..Limits::default()
    };
    let execution = world
        .contexts
        .execute(&world.python, limited(limits, "stuck"));
    assert_eq!(
        all(execution.unwrap()).await[1..],
        [
            "failed OverLimit { limit: Time(1s), state_lost: true }",
            "ended Timeout"
        ]
    );
    assert_eq!(world.kernels.meter.kills.load(Ordering::SeqCst), 1);
    assert_eq!(
        world.run("say a").await,
        ["lost Stuck", "accepted 1", "a", "ended Ok"]
    );
}

#[tokio::test]
async fn memory_is_limited_while_an_execution_runs_and_no_longer() {
    let world = world();
    let limits = Limits {
        memory: Some(1000),
        ..Limits::default()
    };
    let limit = || *world.kernels.meter.limit.lock();
    let request = limited(limits, "wait");
    let mut execution = world.execute(request);
    next(&mut execution).await;
    assert_eq!(limit(), Some(1000));
    drop(execution);
    world.run("say a").await;
    assert_eq!(limit(), None);
    let died = limited(limits, "die 1");
    all(world.execute(died)).await;
    assert_eq!(limit(), None);
}

#[tokio::test]
async fn code_that_could_never_have_its_memory_is_not_run() {
    let world = world();
    seen(
        &world,
        Usage {
            memory: Some(2000),
            ..Usage::default()
        },
    );
    let limits = Limits {
        memory: Some(1000),
        ..Limits::default()
    };
    let execution = world
        .contexts
        .execute(&world.python, limited(limits, "remember me"));
    assert_eq!(
        all(execution.unwrap()).await,
        ["failed NoMemory { limit: 1000 }", "ended OutOfMemory"]
    );
    assert_eq!(world.run("recall").await[1], "raised NameError");
}

#[tokio::test]
async fn a_kernel_that_the_machine_killed_for_memory_ran_out_of_memory() {
    let world = world();
    let mut execution = world
        .contexts
        .execute(&world.python, request("wait"))
        .unwrap();
    next(&mut execution).await;
    seen(
        &world,
        Usage {
            out_of_memory_kills: Some(1),
            ..Usage::default()
        },
    );
    world.kernels.kill_newest();
    // The first look saw no count at all, so nothing can be said.
    assert_eq!(
        all(execution).await,
        ["failed Died(Signal(9))", "ended Killed"]
    );
    let mut execution = world.execute(request("wait"));
    while next(&mut execution).await.as_deref() != Some("accepted 1") {}
    seen(
        &world,
        Usage {
            out_of_memory_kills: Some(2),
            ..Usage::default()
        },
    );
    world.kernels.kill_newest();
    assert_eq!(
        all(execution).await,
        ["failed Died(OutOfMemory)", "ended OutOfMemory"]
    );
}

#[tokio::test]
async fn a_receipt_has_what_was_used_meanwhile_even_of_a_kernel_that_died() {
    let world = world();
    let usage = Usage {
        processor: Duration::from_secs(7),
        memory: Some(50),
        peak_memory: Some(100),
        storage: Some(Moved {
            read: 10,
            written: 20,
        }),
        ..Usage::default()
    };
    seen(&world, usage);
    for code in ["say a", "die 1"] {
        let receipt = receipt(&world, request(code)).await;
        assert_eq!(
            receipt.spent,
            Some(Spent {
                processor: Duration::from_millis(1),
                memory: Some(50),
                peak_memory: Some(100),
                moved: Some(Moved::default()),
                out_of_memory_kills: None,
            })
        );
    }
}

#[tokio::test]
async fn what_waits_and_what_runs_can_be_looked_at() {
    let world = world();
    let mut first = world.execute(request("wait"));
    next(&mut first).await;
    let second = world.execute(request("say a"));
    seen(
        &world,
        Usage {
            processor: Duration::from_secs(2),
            ..Usage::default()
        },
    );
    let found = world.contexts.execution(&first.id).unwrap();
    assert_eq!(found.context, world.python);
    let spent = found.running.unwrap().spent.unwrap();
    assert_eq!(spent.processor, Duration::from_secs(2));
    let waiting = world.contexts.execution(&second.id).unwrap();
    assert_eq!(waiting.running, None);
    assert_eq!(world.contexts.executions().len(), 2);

    drop(first);
    all(second).await;
    wait_until(Duration::from_secs(10), || async {
        match world.contexts.executions().len() {
            0 => Ok(()),
            left => Err(format!("{left} executions are still there")),
        }
    })
    .await;
}
