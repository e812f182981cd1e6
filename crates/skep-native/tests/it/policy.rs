//! Policies of owners for what their sandboxes reach.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use skep_isolation::{AfterCheckpoint, Isolation, Launched, RestoreTarget};
use skep_native::Defence;
use skep_testkit::wait_until;
use skep_types::{Connections, Egress, EgressRules, ImagePurpose};

use crate::bench::{Bench, ask};
use crate::checkpoint::{checkpoints, dump, restore, same};
use crate::network::{assert_denied, connect, first_process, gateway_of};
use crate::uplink::Uplink;

crate::tests![
    a_policy_holds_from_the_first_packet_and_another_one_at_once,
    what_an_owner_denies_is_denied_in_whatever_form_it_is_asked_for,
    no_policy_opens_what_the_platform_denies,
    connections_that_a_changed_policy_denies_are_cut,
    a_policy_is_told_again_to_whoever_adopts_a_sandbox,
    a_policy_holds_for_a_sandbox_that_is_restored_and_for_its_copies,
    rules_that_somebody_removed_come_back_with_every_policy,
    names_are_answered_where_a_policy_needs_them,
];

fn egress(allowed: &[String], denied: &[String]) -> Egress {
    Egress::new(EgressRules {
        allowed: allowed.to_vec(),
        denied: denied.to_vec(),
        ..EgressRules::default()
    })
    .unwrap()
}

fn everything() -> String {
    "0.0.0.0/0".to_owned()
}

async fn launch(bench: &Bench, egress: Egress) -> Launched {
    let mut request = bench.request();
    request.egress = egress;
    bench.native().launch(request).await.unwrap()
}

/// Asserts the answer of a connection that an owner's policy rejects.
#[track_caller]
fn assert_refused(answer: &str) {
    assert_eq!(answer, "error: ConnectionRefused");
}

/// Asserts which of two addresses of the world a sandbox reaches.
async fn assert_reach(sandbox: &Launched, uplink: &Uplink, public: bool, world: bool) {
    for (address, reached) in [(uplink.public(), public), (uplink.world(), world)] {
        let answer = connect(sandbox, uplink.at(address)).await;
        if reached {
            assert_eq!(answer, uplink.host().to_string());
        } else {
            assert_refused(&answer);
        }
    }
}

async fn a_policy_holds_from_the_first_packet_and_another_one_at_once() {
    let uplink = Uplink::new();
    let bench = Bench::new().await;
    let (public, world) = (uplink.public().to_string(), uplink.world().to_string());
    let sandbox = launch(&bench, egress(&[], std::slice::from_ref(&public))).await;
    assert_reach(&sandbox, &uplink, false, true).await;
    let set = |egress| sandbox.set_egress(egress, Connections::Cut);
    set(egress(std::slice::from_ref(&public), &[everything()]))
        .await
        .unwrap();
    assert_reach(&sandbox, &uplink, true, false).await;
    set(Egress::default()).await.unwrap();
    assert_reach(&sandbox, &uplink, true, true).await;
    // What is allowed goes before what is denied, at the ends of ranges, too.
    let around = format!("{}/30", uplink.host());
    set(egress(std::slice::from_ref(&world), &[around]))
        .await
        .unwrap();
    assert_reach(&sandbox, &uplink, false, true).await;
    set(Egress::closed()).await.unwrap();
    assert_reach(&sandbox, &uplink, false, false).await;
    set(egress(&[public, world], &[everything()]))
        .await
        .unwrap();
    assert_reach(&sandbox, &uplink, true, true).await;
    // One without a policy is not touched by those of others.
    let other = bench.launch().await;
    assert_reach(&other, &uplink, true, true).await;
    for sandbox in [&sandbox, &other] {
        sandbox.destroy().await.unwrap();
    }
    drop((sandbox, other));
    bench.finish().await;
}

async fn a_policy_holds_for_a_sandbox_that_is_restored_and_for_its_copies() {
    let uplink = Uplink::new();
    let bench = Bench::with(|config| config.checkpoints = Some(checkpoints())).await;
    let mut request = bench.request();
    request.egress = egress(&[], &[uplink.public().to_string()]);
    let sandbox = bench.native().launch(request.clone()).await.unwrap();
    assert_reach(&sandbox, &uplink, false, true).await;

    let snapshot = dump(&sandbox, AfterCheckpoint::Continue(ImagePurpose::Keep)).await;
    let mut other = bench.request();
    other.egress = egress(&[], &[uplink.world().to_string()]);
    let copy = restore(&bench, &snapshot, RestoreTarget::Copy(Box::new(other))).await;
    assert_reach(&copy, &uplink, true, false).await;

    let image = dump(&sandbox, AfterCheckpoint::Stand).await;
    sandbox.destroy().await.unwrap();
    let resumed = restore(&bench, &image, same(&request)).await;
    assert_ne!(resumed.address(), sandbox.address(), "the control");
    assert_reach(&resumed, &uplink, false, true).await;
    for sandbox in [&copy, &resumed] {
        sandbox.destroy().await.unwrap();
    }
    drop((sandbox, copy, resumed));
    bench.finish().await;
}

async fn what_an_owner_denies_is_denied_in_whatever_form_it_is_asked_for() {
    let uplink = Uplink::new();
    let public = uplink.public();
    let mapped = SocketAddr::from((public.to_ipv6_mapped(), uplink.at(public).port()));
    // It is the owner's rule that denies: without it the same connections come about.
    for (without, is_denied) in [(vec![], true), (vec![Defence::OwnersRules], false)] {
        let bench = Bench::with(|config| config.without = without).await;
        let sandbox = launch(&bench, egress(&[], &[format!("::ffff:{public}")])).await;
        for address in [uplink.at(public), mapped] {
            let answer = connect(&sandbox, address).await;
            if is_denied {
                assert_refused(&answer);
            } else {
                assert_eq!(answer, uplink.host().to_string());
            }
        }
        sandbox.destroy().await.unwrap();
        drop(sandbox);
        bench.finish().await;
    }
}

async fn no_policy_opens_what_the_platform_denies() {
    let uplink = Uplink::new();
    let bench = Bench::new().await;
    let allowed = [uplink.private(), uplink.metadata()].map(|address| address.to_string());
    for denied in [vec![], vec![everything()]] {
        let sandbox = launch(&bench, egress(&allowed, &denied)).await;
        assert_denied(&connect(&sandbox, uplink.at(uplink.private())).await);
        assert_denied(&connect(&sandbox, uplink.at(uplink.metadata())).await);
        sandbox.destroy().await.unwrap();
    }
    bench.finish().await;
    // It is the platform's rule that denies: without it the owner's would do.
    let bench = Bench::with(|config| config.without = vec![Defence::DeniedRanges]).await;
    let sandbox = launch(&bench, egress(&allowed, &[everything()])).await;
    let seen = connect(&sandbox, uplink.at(uplink.private())).await;
    assert_eq!(seen, uplink.host().to_string());
    sandbox.destroy().await.unwrap();
    drop(sandbox);
    bench.finish().await;
}

/// A connection that somebody in the network of a sandbox holds.
pub(crate) struct Conversation {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Conversation {
    pub(crate) fn begin(sandbox: &Launched, address: SocketAddr) -> Self {
        let namespace = format!("--net=/proc/{}/ns/net", first_process(sandbox));
        let mut child = Command::new("nsenter")
            .arg(namespace)
            .arg(std::env::current_exe().unwrap())
            .args(["probe", &format!("converse={address}")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            input: child.stdin.take().unwrap(),
            output: BufReader::new(child.stdout.take().unwrap()),
            child,
        }
    }

    pub(crate) fn say(&mut self, word: &str) -> String {
        writeln!(self.input, "{word}").unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    pub(crate) fn end(mut self) {
        drop(self.input);
        self.child.wait().unwrap();
    }
}

async fn connections_that_a_changed_policy_denies_are_cut() {
    let cut = after_change(Vec::new()).await;
    assert_eq!(
        cut,
        ("error: ConnectionReset".to_owned(), "again".to_owned())
    );
    // Where nobody cuts them, they go on.
    let kept = after_change(vec![Defence::CutConnections]).await;
    assert_eq!(kept, ("again".to_owned(), "again".to_owned()));
}

/// Answers on two connections that were there before a policy that denies the first.
async fn after_change(without: Vec<Defence>) -> (String, String) {
    let uplink = Uplink::new();
    let bench = Bench::with(|config| config.without = without).await;
    let sandbox = bench.launch().await;
    let mut denied = Conversation::begin(&sandbox, Uplink::echo(uplink.public()));
    let mut allowed = Conversation::begin(&sandbox, Uplink::echo(uplink.world()));
    assert_eq!(
        (denied.say("one").as_str(), allowed.say("two").as_str()),
        ("one", "two")
    );
    let policy = egress(&[uplink.world().to_string()], &[everything()]);
    sandbox.set_egress(policy, Connections::Cut).await.unwrap();
    let answers = (denied.say("again"), allowed.say("again"));
    denied.end();
    allowed.end();
    sandbox.destroy().await.unwrap();
    drop(sandbox);
    bench.finish().await;
    answers
}

async fn a_policy_is_told_again_to_whoever_adopts_a_sandbox() {
    let uplink = Uplink::new();
    let mut bench = Bench::new().await;
    let policy = egress(&[uplink.public().to_string()], &[everything()]);
    let sandbox = launch(&bench, policy.clone()).await;
    let record = sandbox.record();
    drop(sandbox);
    bench.restart().await;
    let sandbox = bench.native().adopt(record).await.unwrap();
    // Until somebody says what its policy is, it reaches nothing.
    assert_reach(&sandbox, &uplink, false, false).await;
    sandbox.set_egress(policy, Connections::Cut).await.unwrap();
    assert_reach(&sandbox, &uplink, true, false).await;
    sandbox.destroy().await.unwrap();
    drop(sandbox);
    bench.finish().await;
}

async fn rules_that_somebody_removed_come_back_with_every_policy() {
    let uplink = Uplink::new();
    let bench = Bench::new().await;
    let policy = egress(&[uplink.public().to_string()], &[everything()]);
    let sandbox = launch(&bench, policy).await;
    let left = bench.left();
    let link = left.iter().find_map(|thing| thing.strip_prefix("link "));
    let (table, _) = link.unwrap().split_once('-').unwrap();
    let removed = Command::new("nft")
        .args(["delete", "table", "inet", table])
        .status();
    assert!(removed.unwrap().success());
    wait_until(Duration::from_secs(30), || async {
        let listing = ["list", "map", "inet", table, "policies"];
        let rules = Command::new("nft").args(listing).output().unwrap();
        let is_back = String::from_utf8_lossy(&rules.stdout).contains("policy-");
        is_back.then_some(()).ok_or("the policy is missing")
    })
    .await;
    assert_reach(&sandbox, &uplink, true, false).await;
    sandbox.destroy().await.unwrap();
    drop(sandbox);
    bench.finish().await;
}

async fn names_are_answered_where_a_policy_needs_them() {
    let bench = Bench::with(|config| config.host.resolvers = Vec::new()).await;
    let question = |gateway| format!("work resolve={gateway}:53/example.test.");
    for (policy, answer) in [
        (egress(&["192.0.2.7".into()], &[everything()]), "Refused "),
        // There is no resolver in this test; it would be asked.
        (egress(&[], &["192.0.2.7".into()]), "ServFail "),
    ] {
        let sandbox = launch(&bench, policy).await;
        let gateway = gateway_of(&sandbox).await;
        assert_eq!(ask(&sandbox, &question(gateway)).await, answer);
        sandbox.destroy().await.unwrap();
    }
    bench.finish().await;
}
