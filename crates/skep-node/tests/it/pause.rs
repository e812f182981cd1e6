//! Sandboxes that are paused and resumed.

use std::sync::atomic::Ordering;
use std::time::Duration;

use skep_node::Node;
use skep_types::{
    Capabilities, Capability, Egress, EndReason, ImageKind, ImagePurpose, KeptIn, Mount, OnTimeout,
    PauseRequest, Phase, RequestRuleWords, RequestRules, Restart, ResumeRequest, ResumeStart,
    RollBackRequest, SandboxId, SandboxSpec, SandboxStatus, TemplateStart, TransitionError,
    WhenStopped,
};

use crate::copies::back_to;
use crate::{TestHost, spec};

pub(crate) const HOUR: Duration = Duration::from_secs(3600);

pub(crate) async fn created(node: &Node) -> SandboxStatus {
    node.create(spec(HOUR)).await.expect("the fake launches")
}

pub(crate) fn pausing(kind: ImageKind) -> PauseRequest {
    PauseRequest {
        kind,
        needs_agent: false,
        execution: None,
    }
}

fn resuming(lifetime: Duration) -> ResumeRequest {
    ResumeRequest {
        lifetime,
        start: ResumeStart::AsPaused,
        on_timeout: None,
        restart: None,
    }
}

pub(crate) async fn resume(
    node: &Node,
    id: &SandboxId,
    lifetime: Duration,
) -> Result<SandboxStatus, TransitionError> {
    let resumed = node.resume(id, resuming(lifetime)).await;
    resumed.map(|resumed| resumed.status)
}

/// Waits until a paused sandbox is in an image and has no process.
pub(crate) async fn stored(host: &TestHost, id: &SandboxId) {
    tokio::time::advance(Duration::from_secs(31)).await;
    skep_testkit::wait_until(Duration::from_secs(10), async || {
        if host.isolation.living().contains(id) {
            Err("it still has processes")
        } else {
            Ok(())
        }
    })
    .await;
}

#[tokio::test]
async fn a_paused_sandbox_stands_out_of_reach_and_goes_on_as_another_execution() {
    let host = TestHost::default();
    let node = host.node();
    let running = created(&node).await;
    let ended = node.route(&running.id).unwrap().ended;

    let paused = node
        .pause(&running.id, pausing(ImageKind::Memory))
        .await
        .unwrap();

    assert_eq!(paused.phase, Phase::Paused);
    assert_eq!(paused.paused, Some(ImageKind::Memory));
    assert!(ended.is_cancelled() && node.route(&running.id).is_none());
    assert!(host.isolation.is_frozen(&running.id));
    let again = node
        .pause(&running.id, pausing(ImageKind::Memory))
        .await
        .unwrap();
    assert_eq!(again, paused, "asking twice changes nothing");

    let resumed = resume(&node, &running.id, HOUR).await.unwrap();
    assert_eq!((resumed.phase, resumed.paused), (Phase::Running, None));
    assert_ne!(resumed.execution, running.execution);
    assert!(!host.isolation.is_frozen(&running.id));
    let route = node.route(&running.id).unwrap();
    assert_eq!(route.execution, resumed.execution);
    assert!(!route.ended.is_cancelled());
    let again = resume(&node, &running.id, HOUR).await.unwrap();
    assert_eq!(again.execution, resumed.execution, "it is left alone");
}

#[tokio::test(start_paused = true)]
async fn a_paused_sandbox_has_no_deadline() {
    let host = TestHost::default();
    let node = host.node();
    let id = node.create(spec(Duration::from_secs(10))).await.unwrap().id;
    node.pause(&id, pausing(ImageKind::Memory)).await.unwrap();
    tokio::time::advance(Duration::from_secs(20)).await;
    assert_eq!(node.status(&id).unwrap().phase, Phase::Paused);
    resume(&node, &id, Duration::from_secs(10)).await.unwrap();
    tokio::time::advance(Duration::from_secs(11)).await;
    skep_testkit::wait_until(Duration::from_secs(10), async || {
        host.journal.ending(&id).ok_or("it lives")
    })
    .await;
    assert_eq!(host.journal.ending(&id).unwrap().reason, EndReason::Timeout);
}

#[tokio::test(start_paused = true)]
async fn one_that_stands_for_long_is_kept_in_an_image_and_restored_from_it() {
    let host = TestHost::default();
    let node = host.node();
    let id = created(&node).await.id;
    node.pause(&id, pausing(ImageKind::Memory)).await.unwrap();
    let promised = node.host().promised;

    stored(&host, &id).await;

    assert_eq!(host.isolation.image_count(), 1);
    assert!(node.host().promised.memory < promised.memory);
    assert_eq!(node.status(&id).unwrap().phase, Phase::Paused);
    let resumed = resume(&node, &id, HOUR).await.unwrap();
    assert_eq!(resumed.phase, Phase::Running);
    assert_eq!(host.isolation.living(), std::slice::from_ref(&id));
    assert_eq!(node.host().promised, promised);
    assert_eq!(host.isolation.image_count(), 0, "it was used");
    node.pause(&id, pausing(ImageKind::Filesystem))
        .await
        .unwrap();
    assert_eq!(host.isolation.image_count(), 1);
    node.kill(&id, EndReason::Killed).await.unwrap();
    assert_eq!(host.isolation.image_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn one_that_cannot_be_written_to_an_image_stands_and_is_tried_again() {
    let host = TestHost::default();
    let node = host.node();
    let id = created(&node).await.id;
    node.pause(&id, pausing(ImageKind::Memory)).await.unwrap();
    host.isolation.fail_next_change();
    tokio::time::advance(Duration::from_secs(31)).await;
    tokio::time::advance(Duration::from_secs(60)).await;
    assert!(host.isolation.is_frozen(&id));
    tokio::time::advance(Duration::from_mins(5)).await;
    stored(&host, &id).await;
    assert_eq!(host.isolation.image_count(), 1);
}

#[tokio::test(start_paused = true)]
async fn one_that_loses_its_processes_while_it_is_written_keeps_its_files() {
    let host = TestHost::default();
    let node = host.node();
    let id = created(&node).await.id;
    let lost_by_store = async || {
        host.isolation.damage_at_next_change();
        stored(&host, &id).await;
    };
    let lost_by_copy = async || {
        host.isolation.damage_at_next_change();
        let copied = node
            .snapshot(&id, ImageKind::Memory, ImagePurpose::Keep)
            .await;
        assert!(matches!(copied, Err(TransitionError::Failed(_))));
    };
    for is_copied in [false, true] {
        node.pause(&id, pausing(ImageKind::Memory)).await.unwrap();
        if is_copied {
            lost_by_copy().await;
        } else {
            lost_by_store().await;
        }
        assert!(host.isolation.living().is_empty());
        assert_eq!(host.isolation.image_count(), 1);
        let paused = node.status(&id).unwrap();
        assert_eq!(paused.phase, Phase::Paused);
        assert_eq!(paused.paused, Some(ImageKind::Filesystem));
        let resumed = resume(&node, &id, HOUR).await.unwrap();
        assert_eq!(resumed.kept_in, Some(KeptIn::Files));
        assert_eq!(host.isolation.living(), std::slice::from_ref(&id));
    }
}

#[tokio::test]
async fn a_pause_that_keeps_files_alone_leaves_no_process() {
    let host = TestHost::default();
    let node = host.node();
    let id = created(&node).await.id;
    let paused = node
        .pause(&id, pausing(ImageKind::Filesystem))
        .await
        .unwrap();
    assert_eq!(paused.paused, Some(ImageKind::Filesystem));
    assert!(host.isolation.living().is_empty());
    resume(&node, &id, HOUR).await.unwrap();
    assert_eq!(host.isolation.living(), [id]);
}

#[tokio::test]
async fn a_pause_or_resume_that_fails_changes_nothing() {
    let host = TestHost::default();
    let node = host.node();
    let running = created(&node).await;
    let id = &running.id;

    let open = node.route(id).unwrap().ended;
    for kind in ImageKind::ALL {
        host.isolation.fail_next_change();
        let failed = node.pause(id, pausing(kind)).await;
        assert!(matches!(failed, Err(TransitionError::Failed(_))));
        assert_eq!(node.status(id).unwrap(), running);
    }
    assert!(!open.is_cancelled(), "streams of before are open");
    assert!(!node.route(id).unwrap().ended.is_cancelled());

    let paused = node.pause(id, pausing(ImageKind::Memory)).await.unwrap();
    host.isolation.fail_next_change();
    let failed = resume(&node, id, HOUR).await;
    assert!(matches!(failed, Err(TransitionError::Failed(_))));
    assert_eq!(node.status(id).unwrap(), paused);
    assert!(open.is_cancelled());
    resume(&node, id, HOUR).await.unwrap();

    let checkpoint = node
        .snapshot(id, ImageKind::Memory, ImagePurpose::Keep)
        .await
        .unwrap();
    let open = node.route(id).unwrap().ended;
    host.isolation.fail_next_change();
    node.roll_back(id, back_to(&checkpoint)).await.unwrap_err();
    assert!(!open.is_cancelled() && node.route(id).is_some());
}

#[tokio::test]
async fn what_the_backend_cannot_do_is_said_and_changes_nothing() {
    let host = TestHost::default();
    host.isolation.set_capabilities(Capabilities::default());
    let node = host.node();
    let running = created(&node).await;
    let id = &running.id;
    let unsupported = |answer: Result<(), TransitionError>, wanted| match answer {
        Err(TransitionError::Unsupported(unsupported)) => assert_eq!(unsupported.0, wanted),
        other => panic!("{other:?}"),
    };
    for kind in ImageKind::ALL {
        let answer = node.pause(id, pausing(kind)).await.map(drop);
        unsupported(answer, Capability::of_image(kind));
        let answer = node.snapshot(id, kind, ImagePurpose::Keep).await.map(drop);
        unsupported(answer, Capability::of_image(kind));
    }
    let answer = node.set_egress(id, Egress::closed()).await;
    unsupported(answer, Capability::EgressChange);
    assert_eq!(node.status(id).unwrap(), running);
    assert!(node.route(id).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_whose_time_is_over_is_paused_if_it_was_ordered_so_and_runs_on_if_that_fails() {
    let host = TestHost::default();
    let node = host.node();
    let order = SandboxSpec {
        on_timeout: OnTimeout::Pause(ImageKind::Memory),
        ..spec(Duration::from_secs(10))
    };
    let id = node.create(order).await.unwrap().id;
    let phase = async |wanted: Phase| {
        skep_testkit::wait_until(Duration::from_secs(5), async || {
            match node.status(&id).map(|status| status.phase) {
                Some(found) if found == wanted => Ok(()),
                found => Err(format!("{found:?}")),
            }
        })
        .await;
    };
    host.isolation.fail_next_change();
    tokio::time::advance(Duration::from_secs(11)).await;
    phase(Phase::Running).await;
    tokio::time::advance(Duration::from_secs(11)).await;
    phase(Phase::Paused).await;
    assert_eq!(node.status(&id).unwrap().paused, Some(ImageKind::Memory));
    // The policy survives a resume, and a resume that says so changes it.
    resume(&node, &id, Duration::from_secs(10)).await.unwrap();
    tokio::time::advance(Duration::from_secs(11)).await;
    phase(Phase::Paused).await;
    let request = ResumeRequest {
        on_timeout: Some(OnTimeout::Kill),
        ..resuming(Duration::from_secs(10))
    };
    node.resume(&id, request).await.unwrap();
    tokio::time::advance(Duration::from_secs(11)).await;
    skep_testkit::wait_until(Duration::from_secs(10), async || {
        host.journal.ending(&id).ok_or("it lives")
    })
    .await;
    assert_eq!(host.journal.ending(&id).unwrap().reason, EndReason::Timeout);
}

/// Code that kept its agent from answering was never paused, and ran for as long as it liked.
#[tokio::test(start_paused = true)]
async fn a_silent_agent_does_not_keep_a_sandbox_running_beyond_its_time() {
    let host = TestHost::default();
    let node = host.node();
    let order = SandboxSpec {
        on_timeout: OnTimeout::Pause(ImageKind::Filesystem),
        ..spec(Duration::from_secs(10))
    };
    let id = node.create(order).await.unwrap().id;
    host.agents.silence(true);
    tokio::time::advance(Duration::from_secs(11)).await;
    skep_testkit::wait_until(Duration::from_secs(5), async || {
        match node.status(&id).map(|status| status.phase) {
            Some(Phase::Paused) => Ok(()),
            found => Err(format!("{found:?}")),
        }
    })
    .await;
    let status = node.status(&id).unwrap();
    assert_eq!(status.paused, Some(ImageKind::Memory));
    assert!(host.isolation.is_frozen(&id) && status.agent_was_silent);
    let anew = ResumeRequest {
        start: ResumeStart::Reboot,
        ..resuming(HOUR)
    };
    node.resume(&id, anew).await.unwrap();
}

#[tokio::test]
async fn a_sandbox_without_its_memory_starts_what_its_template_starts() {
    let host = TestHost::default();
    let node = host.node();
    let id = created(&node).await.id;
    let start = TemplateStart {
        command: Some("serve".to_owned()),
        ready: None,
        user: "user".to_owned(),
        workdir: None,
        env: Vec::new(),
    };
    let restart = || {
        Some(Box::new(Restart {
            start: start.clone(),
            env: Vec::new(),
            access_token: None,
        }))
    };
    let request = || ResumeRequest {
        restart: restart(),
        ..resuming(HOUR)
    };
    node.pause(&id, pausing(ImageKind::Memory)).await.unwrap();
    node.resume(&id, request()).await.unwrap();
    assert_eq!(host.agents.started.lock().len(), 0, "it runs still");
    node.pause(&id, pausing(ImageKind::Filesystem))
        .await
        .unwrap();
    node.resume(&id, request()).await.unwrap();
    let serve = (String::new(), "serve".to_owned());
    assert_eq!(host.agents.started.lock().clone(), vec![serve.clone(); 1]);

    for (kind, count) in [(ImageKind::Memory, 1), (ImageKind::Filesystem, 2)] {
        let taken = node.snapshot(&id, kind, ImagePurpose::Keep).await.unwrap();
        let back = RollBackRequest {
            restart: restart(),
            ..back_to(&taken)
        };
        node.roll_back(&id, back).await.unwrap();
        let started = host.agents.started.lock().clone();
        assert_eq!(started, vec![serve.clone(); count], "back to {kind:?}");
    }
}

#[tokio::test]
async fn a_pause_is_of_the_run_that_it_was_asked_for() {
    let host = TestHost::default();
    let node = host.node();
    let first = created(&node).await;
    let pinned = PauseRequest {
        execution: Some(first.execution),
        ..pausing(ImageKind::Memory)
    };
    node.pause(&first.id, pinned).await.unwrap();
    let resumed = node.resume(&first.id, resuming(HOUR)).await.unwrap();
    assert!(!resumed.was_running);
    let late = node.pause(&first.id, pinned).await.unwrap();
    assert_eq!(late.phase, Phase::Running, "another run goes on");
    let longer = resuming(HOUR * 2);
    let joined = node.resume(&first.id, longer).await.unwrap();
    assert!(joined.was_running);
    assert!(
        joined.status.ends_at > resumed.status.ends_at,
        "and lives longer"
    );
}

#[tokio::test]
async fn a_silent_agent_is_left_alone_or_its_sandbox_starts_anew() {
    let host = TestHost::default();
    let node = host.node();
    let id = created(&node).await.id;
    host.agents.silence(true);
    for request in [
        pausing(ImageKind::Filesystem),
        PauseRequest {
            needs_agent: true,
            ..pausing(ImageKind::Memory)
        },
    ] {
        let refused = node.pause(&id, request).await;
        assert!(matches!(refused, Err(TransitionError::AgentSilent)));
        assert_eq!(node.status(&id).unwrap().phase, Phase::Running);
    }
    let paused = node.pause(&id, pausing(ImageKind::Memory)).await.unwrap();
    assert!(paused.agent_was_silent);
    let refused = resume(&node, &id, HOUR).await;
    assert!(matches!(refused, Err(TransitionError::AgentWasSilent)));
    assert!(host.isolation.is_frozen(&id));
    let anew = ResumeRequest {
        start: ResumeStart::Reboot,
        ..resuming(HOUR)
    };
    let resumed = node.resume(&id, anew).await.unwrap().status;
    assert_eq!(resumed.phase, Phase::Running);
    assert!(!resumed.agent_was_silent);
    assert_eq!(host.isolation.image_count(), 0);
    // One that answers again when it is thawed has lost nothing.
    node.pause(&id, pausing(ImageKind::Memory)).await.unwrap();
    host.agents.silence(false);
    resume(&node, &id, HOUR).await.unwrap();
}

#[tokio::test]
async fn only_a_paused_sandbox_that_was_ordered_so_and_has_its_memory_goes_on_by_itself() {
    let host = TestHost::default();
    let node = host.node();
    let order = SandboxSpec {
        auto_resume: true,
        ..spec(HOUR)
    };
    let token = order.access_token.clone().unwrap();
    let id = node.create(order).await.unwrap().id;
    assert!(node.sleeper(&id).is_none(), "it runs");
    node.pause(&id, pausing(ImageKind::Memory)).await.unwrap();
    assert_eq!(node.sleeper(&id).unwrap().access_token, Some(token.clone()));
    assert!(node.find_sleeper(|known| *known == token).is_some());
    resume(&node, &id, HOUR).await.unwrap();
    assert!(node.sleeper(&id).is_none() && node.route(&id).is_some());
    node.pause(&id, pausing(ImageKind::Filesystem))
        .await
        .unwrap();
    assert!(node.sleeper(&id).is_none());
    let other = created(&node).await.id;
    node.pause(&other, pausing(ImageKind::Memory))
        .await
        .unwrap();
    assert!(node.sleeper(&other).is_none());
}

#[tokio::test(start_paused = true)]
async fn another_rule_for_connections_holds_at_once_and_after_a_resume() {
    let host = TestHost::default();
    let node = host.node();
    let id = created(&node).await.id;
    node.set_egress(&id, Egress::closed()).await.unwrap();
    assert_eq!(host.isolation.egress(&id), Some(Egress::closed()));
    node.pause(&id, pausing(ImageKind::Memory)).await.unwrap();
    stored(&host, &id).await;
    resume(&node, &id, HOUR).await.unwrap();
    assert_eq!(host.isolation.egress(&id), Some(Egress::closed()));
    assert_eq!(node.status(&id).unwrap().egress, Egress::closed());
}

pub(crate) fn looking_inside() -> Egress {
    let rule = RequestRuleWords {
        headers: vec![("x-key".to_owned(), "${e2b.secrets.k}".to_owned())],
        ..RequestRuleWords::default()
    };
    let rules = RequestRules::new([("a.test".to_owned(), vec![rule])]).expect("one rule");
    Egress::default().with_request_rules(rules)
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_trusts_whoever_looks_into_its_requests_and_others_do_not() {
    let host = TestHost::default();
    let node = host.node();
    let id = created(&node).await.id;
    let told = || host.agents.trusted.lock().clone();
    node.set_egress(&id, Egress::closed()).await.unwrap();
    assert_eq!(told(), [], "nobody looks into its requests");
    node.set_egress(&id, looking_inside()).await.unwrap();
    let token = node.route(&id).unwrap().control_token.reveal().clone();
    let trusted = (token, "an authority".to_owned());
    assert_eq!(told(), std::slice::from_ref(&trusted));
    // What a resume launches anew knows nothing of it.
    let filesystem = ImageKind::Filesystem;
    node.pause(&id, pausing(filesystem)).await.unwrap();
    resume(&node, &id, HOUR).await.unwrap();
    assert_eq!(told().len(), 2);
    assert_eq!(node.status(&id).unwrap().egress, looking_inside());
}

#[tokio::test]
async fn rules_that_a_sandbox_does_not_learn_of_are_not_in_force() {
    let host = TestHost::default();
    let node = host.node();
    let id = created(&node).await.id;
    host.agents.refuse.store(true, Ordering::SeqCst);
    node.set_egress(&id, looking_inside()).await.unwrap_err();
    assert_eq!(host.isolation.egress(&id), Some(Egress::default()));
    assert_eq!(node.status(&id).unwrap().egress, Egress::default());
}

#[tokio::test]
async fn volumes_are_those_that_were_asked_for() {
    let host = TestHost::default();
    let node = host.node();
    let mounts = vec![Mount {
        volume: skep_types::VolumeId::random(),
        name: "data".parse().unwrap(),
        target: skep_types::MountTarget::new("/mnt/data").unwrap(),
        read_only: true,
    }];
    let spec = SandboxSpec {
        mounts: mounts.clone(),
        ..spec(HOUR)
    };
    let status = node.create(spec).await.unwrap();
    assert_eq!(host.isolation.mounts(&status.id), Some(mounts));
}

#[tokio::test]
async fn the_next_server_finds_a_frozen_sandbox_paused_and_resumes_it() {
    let host = TestHost::default();
    let first = host.node();
    let id = created(&first).await.id;
    let paused = first.pause(&id, pausing(ImageKind::Memory)).await.unwrap();
    first.shut_down(WhenStopped::Leave).await;

    let second = host.node();
    let adoption = second.adopt(host.journal.living()).await;

    assert_eq!(adoption.adopted, std::slice::from_ref(&id));
    assert_eq!(second.status(&id).unwrap(), paused);
    assert!(second.route(&id).is_none());
    resume(&second, &id, HOUR).await.unwrap();
    assert!(second.route(&id).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_that_died_while_it_stood_never_comes_back_as_it_was_earlier() {
    let host = TestHost::default();
    let first = host.node();
    let id = created(&first).await.id;
    first.pause(&id, pausing(ImageKind::Memory)).await.unwrap();
    stored(&host, &id).await;
    resume(&first, &id, HOUR).await.unwrap();
    first.pause(&id, pausing(ImageKind::Memory)).await.unwrap();
    first.shut_down(WhenStopped::Leave).await;
    host.isolation.crash(&id);

    let adoption = host.node().adopt(host.journal.living()).await;

    assert_eq!(adoption.lost, [(id, EndReason::Crashed)]);
}

#[tokio::test]
async fn the_next_server_finds_a_sandbox_without_a_process_paused_and_resumes_it() {
    let host = TestHost::default();
    let first = host.node();
    let id = created(&first).await.id;
    let paused = first
        .pause(&id, pausing(ImageKind::Filesystem))
        .await
        .unwrap();
    first.shut_down(WhenStopped::Leave).await;

    let second = host.node();
    let adoption = second.adopt(host.journal.living()).await;

    assert_eq!(adoption.adopted, std::slice::from_ref(&id));
    assert_eq!(second.status(&id).unwrap(), paused);
    assert_eq!(second.host().promised.memory, 0);
    resume(&second, &id, HOUR).await.unwrap();
    assert_eq!(host.isolation.living(), std::slice::from_ref(&id));
    second.kill(&id, EndReason::Killed).await.unwrap();
    assert_eq!(host.isolation.image_count(), 0);
}

/// It was listed as paused, and every resume of it failed.
#[tokio::test]
async fn a_sandbox_whose_image_is_gone_is_not_adopted() {
    let host = TestHost::default();
    let first = host.node();
    let id = created(&first).await.id;
    first
        .pause(&id, pausing(ImageKind::Filesystem))
        .await
        .unwrap();
    first.shut_down(WhenStopped::Leave).await;
    let second = host.node();
    second.retain_checkpoints(Vec::new()).await;

    let adoption = second.adopt(host.journal.living()).await;

    assert_eq!(adoption.lost, [(id.clone(), EndReason::Crashed)]);
    assert_eq!(second.status(&id), None);
}

#[tokio::test(start_paused = true)]
async fn one_that_stays_in_memory_is_paged_out_once_unless_it_goes_on_before() {
    let host = TestHost::default();
    let node = host.node();
    let id = created(&node).await.id;
    // One that goes to an image soon would have to come back for that.
    node.pause(&id, pausing(ImageKind::Memory)).await.unwrap();
    tokio::time::advance(Duration::from_secs(20)).await;
    tokio::task::yield_now().await;
    assert_eq!(host.isolation.page_outs(&id), 0);
    resume(&node, &id, HOUR).await.unwrap();

    host.isolation
        .set_capabilities([Capability::Freeze].into_iter().collect());
    node.pause(&id, pausing(ImageKind::Memory)).await.unwrap();
    resume(&node, &id, HOUR).await.unwrap();
    tokio::time::advance(Duration::from_secs(20)).await;
    tokio::task::yield_now().await;
    assert_eq!(host.isolation.page_outs(&id), 0, "it went on");

    node.pause(&id, pausing(ImageKind::Memory)).await.unwrap();
    for _ in 0..2 {
        tokio::time::advance(Duration::from_mins(2)).await;
        skep_testkit::wait_until(Duration::from_secs(10), async || {
            match host.isolation.page_outs(&id) {
                1 => Ok(()),
                times => Err(times),
            }
        })
        .await;
    }
    assert!(host.isolation.is_frozen(&id));
    resume(&node, &id, HOUR).await.unwrap();
}
