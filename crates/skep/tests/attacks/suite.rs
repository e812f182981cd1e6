//! Runs the attacks, then reports each as a test.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::Arc;

use futures_util::{StreamExt as _, stream};
use libtest_mimic::{Arguments, Failed, Trial};
use skep_image::Catalog;
use skep_telemetry::Chain;
use skep_types::TemplateImage;
use tokio::runtime::Runtime;

use crate::attack::{self, Attack};
use crate::control::{ATTACKERS, Control, Weakened};
use crate::product::{Product, WITH_ZYGOTE, Zygotes};
use crate::row::{self, Row};
use crate::sentinels::Sentinels;
use crate::target::{Target, Verdict, command, secret};
use crate::world::World;
use crate::{
    agents, bombs, builds, copied, counted, edges, forked, full_host, hoarding, left_behind,
    remembered, restored, stage, table, undying, volumes, wall,
};

/// Number of runs of a race where it must be won once.
const RACES: usize = 4;
/// Name of the attack with copies of contexts.
const IMPOSTORS: &str = "copies::impostors";
/// Name of the count of races, which nobody waits for who has not asked for it.
const COUNT: &str = "races_are_counted";
/// Controls that run at a time.
const CONTROLS: usize = 3;

/// State shared by the tests.
struct Suite {
    product: Product,
    /// Another server for attacks on forks, and their template, if any were chosen.
    beside_zygote: Option<(Product, TemplateImage)>,
    sentinels: Sentinels,
    image: TemplateImage,
    /// False on hosts whose sandboxes do not go to the disk.
    can_restore: bool,
    _world: World,
}

pub(crate) fn run() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // The tests share two processors and one server; the suite itself runs things at a time.
    arguments.test_threads = Some(1);
    let attacks = attack::all();
    let chosen: Vec<Attack> = attacks
        .iter()
        .filter(|attack| is_chosen(&arguments, &attack.full_name()))
        .cloned()
        .collect();
    if arguments.list {
        let trials = attacks
            .iter()
            .map(|attack| Trial::test(attack.full_name(), || Ok(())))
            .chain(pure_trials(&attacks))
            .collect();
        return libtest_mimic::run(&arguments, trials).exit_code();
    }
    let image = image_of("base");
    let beside_zygote = chosen.iter().any(|attack| attack.control.has_zygote());
    let zygote_image = beside_zygote.then(|| image_of(WITH_ZYGOTE));
    let on_forks = [IMPOSTORS, COUNT].map(|name| is_chosen(&arguments, name));
    if on_forks.contains(&true) || chosen.iter().any(is_between_teams) {
        image_of(WITH_ZYGOTE);
    }
    let can_restore = restored::fetch_criu();
    if let Some(ended) = stage::enter() {
        return ended;
    }
    let world = World::new();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let mut suite = Suite {
        product: Product::start(Product::all_with_zygote()),
        beside_zygote: zygote_image.map(|image| (Product::start(true), image)),
        sentinels: Sentinels::new(),
        image,
        can_restore,
        _world: world,
    };
    runtime.block_on(suite.warm());
    let rows = runtime.block_on(suite.run(chosen));
    // What is left behind is counted, and this server would be.
    if let Some((product, _)) = suite.beside_zygote.take() {
        runtime.block_on(product.finish());
    }
    suite.sentinels.check();
    row::report(&rows);
    let suite = Arc::new(suite);
    let runtime = Arc::new(runtime);
    let attacked = rows.into_iter().map(|row| {
        Trial::test(row.attack.full_name(), move || {
            row.check(can_restore).map_err(Failed::from)
        })
    });
    let trials = attacked
        .chain(heavy_trials(&suite, &runtime))
        .chain(pure_trials(&attacks));
    let conclusion = libtest_mimic::run(&arguments, trials.collect());
    let suite = Arc::into_inner(suite).expect("the tests are over");
    runtime.block_on(suite.product.finish());
    conclusion.exit_code()
}

/// Bombs and the clean-up, which work with the server.
fn heavy_trials(suite: &Arc<Suite>, runtime: &Arc<Runtime>) -> Vec<Trial> {
    let bombs = bombs::all().into_iter().map(|bomb| {
        let (suite, runtime) = (Arc::clone(suite), Arc::clone(runtime));
        Trial::test(format!("bombs::{}", bomb.name), move || {
            tell(
                &bomb.name,
                runtime.block_on(bomb.set_off(&suite.product, &suite.sentinels)),
            )
        })
    });
    let queues = hoarding::QUEUES.into_iter().map(|queue| {
        let (suite, runtime) = (Arc::clone(suite), Arc::clone(runtime));
        Trial::test(format!("queues::{}", queue.name), move || {
            let check = queue.check(&suite.product, &suite.image, &suite.sentinels);
            tell(queue.name, runtime.block_on(check))
        })
    });
    let (flooded, runs) = (Arc::clone(suite), Arc::clone(runtime));
    let flood = Trial::test("bombs::output", move || {
        tell(
            "output",
            runs.block_on(bombs::flood(&flooded.product, &flooded.sentinels)),
        )
    });
    let (deep, runs) = (Arc::clone(suite), Arc::clone(runtime));
    let deep_groups = Trial::test("bombs::deep_cgroups", move || {
        tell(
            "deep cgroups",
            runs.block_on(undying::deep_groups(&deep.product, &deep.sentinels)),
        )
    });
    let (frozen, runs) = (Arc::clone(suite), Arc::clone(runtime));
    let undead = Trial::test("bombs::undead", move || {
        tell(
            "undead",
            runs.block_on(undying::undead(&frozen.product, &frozen.sentinels)),
        )
    });
    let (cleaned, runs) = (Arc::clone(suite), Arc::clone(runtime));
    let clean_up = Trial::test("nothing_is_left_of_hundreds_of_sandboxes", move || {
        tell(
            "left behind",
            runs.block_on(left_behind::check(&cleaned.product, &cleaned.sentinels)),
        )
    });
    let (connected, runs) = (Arc::clone(suite), Arc::clone(runtime));
    let forgotten = Trial::test("connections_are_forgotten_with_their_sandbox", move || {
        tell(
            "remembered",
            runs.block_on(remembered::check(&connected.product, &connected.sentinels)),
        )
    });
    let (shared, runs) = (Arc::clone(suite), Arc::clone(runtime));
    let planted = Trial::test("volumes_carry_files_and_nothing_more", move || {
        tell(
            "volumes",
            runs.block_on(volumes::check(
                &shared.product,
                &shared.sentinels,
                shared.can_restore,
            )),
        )
    });
    let (asked, runs) = (Arc::clone(suite), Arc::clone(runtime));
    let reached = Trial::test("agents_reach_what_is_their_teams_alone", move || {
        tell("agents", runs.block_on(agents::check(&asked.product)))
    });
    let (building, runs) = (Arc::clone(suite), Arc::clone(runtime));
    let steps = Trial::test("a_step_of_a_build_is_a_sandbox_of_its_team", move || {
        let attacks = attack::all();
        let check = builds::check(&building.product, &building.sentinels, &attacks);
        tell("builds", runs.block_on(check))
    });
    let runs = Arc::clone(runtime);
    let full = Trial::test("a_full_machine_does_not_break_those_that_run", move || {
        tell("full host", runs.block_on(full_host::check()))
    });
    bombs
        .chain(queues)
        .chain([
            flood,
            deep_groups,
            undead,
            clean_up,
            forgotten,
            planted,
            reached,
            steps,
            full,
        ])
        .chain([impostors(suite, runtime), count_of_races(suite, runtime)])
        .collect()
}

/// Attacks with copies of contexts, on a server whose sandboxes have an interpreter.
fn impostors(suite: &Arc<Suite>, runtime: &Arc<Runtime>) -> Trial {
    let (suite, runtime) = (Arc::clone(suite), Arc::clone(runtime));
    Trial::test(IMPOSTORS, move || {
        let attacked = runtime.block_on(async {
            let product = Product::start(true);
            let attacked = copied::impostors(&product, &suite.sentinels).await;
            product.finish().await;
            attacked
        });
        tell("impostors", attacked)
    })
}

fn count_of_races(suite: &Arc<Suite>, runtime: &Arc<Runtime>) -> Trial {
    let (suite, runtime) = (Arc::clone(suite), Arc::clone(runtime));
    let trial = Trial::test(COUNT, move || {
        let image = image_of(WITH_ZYGOTE);
        let attacks = attack::all();
        let counting = counted::count(&attacks, &image, &suite.sentinels);
        tell("races", runtime.block_on(counting))
    });
    trial.with_ignored_flag(true)
}

#[expect(clippy::print_stdout, reason = "figures are for readers of the log")]
fn tell(name: &str, outcome: Result<String, String>) -> Result<(), Failed> {
    println!("{name}: {}", outcome.as_deref().unwrap_or("failed"));
    outcome.map(drop).map_err(Failed::from)
}

/// Returns true if it takes kernels of two teams, on servers of its own.
fn is_between_teams(attack: &Attack) -> bool {
    attack.control == Control::SharedZygote
}

fn is_chosen(arguments: &Arguments, name: &str) -> bool {
    let skipped = arguments.skip.iter().any(|skip| name.contains(skip));
    let filter = arguments.filter.as_deref().unwrap_or_default();
    !skipped
        && if arguments.exact {
            name == filter
        } else {
            name.contains(filter)
        }
}

/// Directory of templates and of CRIU.
#[expect(
    clippy::disallowed_methods,
    reason = "a test program is its own `main`"
)]
pub(crate) fn cache() -> PathBuf {
    std::env::var_os("SKEP_CACHE_DIR").map_or_else(|| "/var/cache/skep".into(), PathBuf::from)
}

fn catalog() -> Catalog {
    Catalog::open(&cache()).unwrap()
}

/// Directories of the layers of a template.
pub(crate) fn layer_paths(image: &TemplateImage) -> Vec<PathBuf> {
    catalog().layer_paths(image)
}

/// A template, built if it is missing or of an earlier version, whose zygote would be refused. That
/// needs the host's network.
fn image_of(name: &str) -> TemplateImage {
    let built = Command::new(env!("CARGO_BIN_EXE_skep"))
        .args(["template", "build", name])
        .status()
        .unwrap();
    assert!(built.success());
    catalog().find(name).unwrap().unwrap()
}

impl Suite {
    async fn run(&self, attacks: Vec<Attack>) -> Vec<Row> {
        let (between_teams, alone): (Vec<_>, Vec<_>) =
            attacks.iter().cloned().partition(is_between_teams);
        let (mut defended, mut controls) =
            tokio::join!(self.defended(&alone), self.controls(&alone));
        let restored = self.restored(&alone).await;
        let sentinels = &self.sentinels;
        defended.extend(forked::against(&between_teams, sentinels, Zygotes::PerTeam).await);
        controls.extend(forked::against(&between_teams, sentinels, Zygotes::Shared).await);
        let row = |attack: Attack| Row {
            defended: defended[&attack.full_name()].clone(),
            restored: restored.get(&attack.full_name()).cloned(),
            control: controls.get(&attack.full_name()).cloned(),
            attack,
        };
        attacks.into_iter().map(row).collect()
    }

    async fn warm(&self) {
        self.product.warm(&self.sentinels).await;
        if let Some((product, _)) = &self.beside_zygote {
            product.warm(&self.sentinels).await;
        }
    }

    /// Verdicts of the attacks in sandboxes of the product.
    async fn defended(&self, attacks: &[Attack]) -> BTreeMap<String, Verdict> {
        let (on_forks, others): (Vec<_>, Vec<_>) = attacks
            .iter()
            .cloned()
            .partition(|attack| attack.control.has_zygote());
        let target = self.product.create(&self.sentinels).await;
        let mut verdicts = self.beside_neighbour(target, &others).await;
        verdicts.extend(self.on_forks(&on_forks).await);
        verdicts
    }

    /// Verdicts of the attacks in a sandbox of the product that was restored from its memory image.
    async fn restored(&self, attacks: &[Attack]) -> BTreeMap<String, Verdict> {
        let apart = attacks.iter().filter(|attack| attack.is_of_one_sandbox());
        let attacks: Vec<_> = apart.cloned().collect();
        if attacks.is_empty() || !self.can_restore {
            return BTreeMap::new();
        }
        let target = self.product.create(&self.sentinels).await;
        restored::sleep_and_wake(&self.product, &target).await;
        self.beside_neighbour(target, &attacks).await
    }

    /// Verdicts of attacks in a sandbox that has a neighbour, after which both are killed.
    async fn beside_neighbour(
        &self,
        mut target: Target,
        attacks: &[Attack],
    ) -> BTreeMap<String, Verdict> {
        let neighbour = self.product.create(&self.sentinels).await;
        let address = neighbour.shell("hostname -I").await.trim().to_owned();
        target
            .surroundings
            .insert("ATTACK_NEIGHBOUR".into(), address);
        let run = |attack: &Attack| command(&attack.source);
        let verdicts = all_against(&target, attacks, ATTACKERS, run).await;
        self.product.kill(&target).await;
        self.product.kill(&neighbour).await;
        verdicts
    }

    /// Verdicts of attacks on forks, beside a neighbour whose kernels come from the same zygote all
    /// the time.
    async fn on_forks(&self, attacks: &[Attack]) -> BTreeMap<String, Verdict> {
        let Some((product, _)) = &self.beside_zygote else {
            return BTreeMap::new();
        };
        let variables = BTreeMap::from([secret()]);
        let victim = product.create_with(&self.sentinels, &variables).await;
        victim.make_contexts_forever().await;
        let mut verdicts = BTreeMap::new();
        for attack in attacks {
            let target = product.create(&self.sentinels).await;
            let verdict = target.judge(&attack.user, &command(&attack.source)).await;
            verdicts.insert(attack.full_name(), verdict);
            product.kill(&target).await;
        }
        product.kill(&victim).await;
        verdicts
    }

    /// Verdicts of the attacks in their controls, where they must succeed.
    async fn controls(&self, attacks: &[Attack]) -> BTreeMap<String, Verdict> {
        let mut by_control: BTreeMap<Control, Vec<Attack>> = BTreeMap::new();
        for attack in attacks.iter().filter(|attack| kernel_has(attack)) {
            let same = by_control.entry(attack.control.clone()).or_default();
            same.push(attack.clone());
        }
        let controls = by_control.into_iter().map(async |(control, attacks)| {
            let image = match &self.beside_zygote {
                Some((_, image)) if control.has_zygote() => image,
                Some(_) | None => &self.image,
            };
            let weakened = match Weakened::new(&control, image, &self.sentinels).await {
                Ok(weakened) => weakened,
                Err(error) => {
                    let why = Verdict::Unclear(Chain(&error).to_string());
                    let unclear = |attack: &Attack| (attack.full_name(), why.clone());
                    return attacks.iter().map(unclear).collect();
                }
            };
            let command = |attack: &Attack| control.command(&attack.source);
            let (target, attackers) = (&weakened.target, control.attackers());
            let mut verdicts = all_against(target, &attacks, attackers, command).await;
            for attack in attacks.iter().filter(|_| control.is_race()) {
                let name = attack.full_name();
                for _ in 1..RACES {
                    // One that did not end well has lost the race, too.
                    if matches!(verdicts[&name], Verdict::Escaped(_)) {
                        break;
                    }
                    let verdict = target.judge(&attack.user, &command(attack)).await;
                    verdicts.insert(name.clone(), verdict);
                }
            }
            weakened.finish().await;
            verdicts
        });
        let verdicts = stream::iter(controls).buffer_unordered(CONTROLS);
        verdicts
            .collect::<Vec<_>>()
            .await
            .into_iter()
            .flatten()
            .collect()
    }
}

async fn all_against(
    target: &Target,
    attacks: &[Attack],
    attackers: usize,
    command: impl Fn(&Attack) -> Vec<String>,
) -> BTreeMap<String, Verdict> {
    let runs = attacks.iter().map(|attack| {
        let command = command(attack);
        async move {
            (
                attack.full_name(),
                target.judge(&attack.user, &command).await,
            )
        }
    });
    let verdicts = stream::iter(runs).buffer_unordered(attackers);
    verdicts.collect().await
}

/// Returns true if this kernel can be attacked in that way, were there no defence.
fn kernel_has(attack: &Attack) -> bool {
    let Some(needs) = attack.needs.as_deref() else {
        return true;
    };
    match needs {
        "kcore" => exists("/proc/kcore"),
        "sysrq" => exists("/proc/sysrq-trigger"),
        "virtual machine sockets" => has_family(rustix::net::AddressFamily::VSOCK),
        // The unified tree always counts what sockets hold.
        "cgroup v1" => exists("/sys/fs/cgroup/memory/memory.kmem.tcp.limit_in_bytes"),
        "times of one network" => exists("/proc/sys/net/core/tstamp_allow_data"),
        // Older kernels have one number for all networks, which only the first one shows.
        "limits of one network's sockets" => exists("/proc/sys/net/core/optmem_max"),
        "32-bit calls" => exists("/proc/sys/abi/vsyscall32"),
        "the right to raise limits" => {
            const CAP_SYS_RESOURCE: u32 = 24;
            bounding_set() >> CAP_SYS_RESOURCE & 1 == 1
        }
        other => panic!("nobody knows whether the kernel has `{other}`"),
    }
}

fn bounding_set() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("CapBnd:"));
    u64::from_str_radix(line.unwrap().trim(), 16).unwrap()
}

fn exists(path: &str) -> bool {
    std::fs::exists(path).unwrap()
}

fn has_family(family: rustix::net::AddressFamily) -> bool {
    let kinds = [
        rustix::net::SocketType::STREAM,
        rustix::net::SocketType::SEQPACKET,
    ];
    kinds
        .into_iter()
        .any(|kind| rustix::net::socket(family, kind, None).is_ok())
}

/// Tests that need no sandbox.
fn pure_trials(attacks: &[Attack]) -> Vec<Trial> {
    let page = table::page(attacks);
    let walls: BTreeSet<_> = attacks
        .iter()
        .filter_map(|attack| match &attack.control {
            Control::Without(walls) => Some(walls),
            Control::CarelessFiles
            | Control::OpenAgent
            | Control::OpenDescriptor
            | Control::EnteringZygote
            | Control::SharedZygote
            | Control::FreePort => None,
        })
        .flatten()
        .copied()
        .collect();
    let count = attacks.len();
    vec![
        Trial::test("the_page_lists_every_attack", move || check_page(&page)),
        Trial::test("every_test_that_the_page_names_is_there", || {
            edges::check().map_err(Failed::from)
        }),
        Trial::test("every_wall_is_attacked", move || {
            let missing: Vec<_> = wall::all()
                .filter(|wall| !walls.contains(wall))
                .map(wall::name)
                .collect();
            if missing.is_empty() {
                Ok(())
            } else {
                Err(missing.join(", ").into())
            }
        }),
        Trial::test("there_are_at_least_sixty_attacks", move || {
            if count >= 60 {
                Ok(())
            } else {
                Err(format!("{count}").into())
            }
        }),
        Trial::test("no_packet_can_leave_the_machine", || {
            let strange: Vec<_> = stage::interfaces()
                .into_iter()
                .filter(|name| !(name == "lo" || name == "uplink" || name.starts_with("skep")))
                .collect();
            if strange.is_empty() {
                Ok(())
            } else {
                Err(format!("{strange:?}").into())
            }
        }),
    ]
}

#[expect(
    clippy::disallowed_methods,
    reason = "a test program is its own `main`"
)]
fn check_page(page: &str) -> Result<(), Failed> {
    if std::env::var_os("SKEP_BLESS").is_some() {
        std::fs::write(table::path(), page)?;
        return Ok(());
    }
    let there = std::fs::read_to_string(table::path())?;
    if there == page {
        return Ok(());
    }
    Err("docs/attacks.md is not up to date; `SKEP_BLESS=1 cargo test -p skep --test attacks` writes it".into())
}
