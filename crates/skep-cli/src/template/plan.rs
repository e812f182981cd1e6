//! Plan for a Dockerfile: builds of the stages that its result needs, each a list of steps.

use skep_client::BuildStep;
use skep_dockerfile::{
    Base, Copy, CopySource, Dockerfile, Instruction, Note, Placed, Position, Stage, quoted,
};

/// A build for each stage that is needed, in an order in which each has what it needs.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) stages: Vec<PlannedStage>,
}

/// One build.
#[derive(Debug)]
pub(super) struct PlannedStage {
    /// Name in logs, and in the tag of a stage that is not the result.
    pub(super) name: String,
    /// Place of its `FROM`, or of what needs it.
    pub(super) at: Position,
    pub(super) base: PlannedBase,
    pub(super) steps: Vec<PlannedStep>,
    pub(super) start: Option<Placed<String>>,
    /// True if the file says which user and which directory it ends with.
    pub(super) sets_user: bool,
    pub(super) sets_directory: bool,
}

/// Base of a build.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PlannedBase {
    /// A template or an image; the server knows which.
    Named(String),
    /// An earlier build of the plan, by its index.
    Stage(usize),
}

/// A step of a build, and where it comes from.
#[derive(Debug)]
pub(super) struct PlannedStep {
    pub(super) at: Position,
    pub(super) action: Action,
}

/// Action of a step.
#[derive(Debug)]
pub(super) enum Action {
    /// Step that is sent as it is.
    Step(BuildStep),
    /// A copy of files that are uploaded.
    Files(Copy),
    /// A copy out of an earlier build of the plan, by its index.
    From { stage: usize, copy: Copy },
}

/// Makes the plan.
///
/// # Errors
///
/// Every place that has something which a build cannot have.
pub(super) fn plan(file: &Dockerfile) -> Result<Plan, Vec<Note>> {
    let mut planner = Planner {
        stages: Vec::new(),
        places: vec![None; file.stages.len()],
        errors: Vec::new(),
    };
    for index in file.needed() {
        planner.stage(index, &file.stages[index]);
    }
    if planner.errors.is_empty() {
        Ok(Plan {
            stages: planner.stages,
        })
    } else {
        Err(planner.errors)
    }
}

struct Planner {
    stages: Vec<PlannedStage>,
    /// Indices of the file's stages in the plan.
    places: Vec<Option<usize>>,
    errors: Vec<Note>,
}

impl Planner {
    fn stage(&mut self, index: usize, stage: &Stage) {
        let (base, above) = match &stage.base {
            Base::Image(name) => (PlannedBase::Named(name.clone()), None),
            Base::Stage(above) => {
                let place = self.places[*above].unwrap_or_default();
                (PlannedBase::Stage(place), Some(place))
            }
            Base::Scratch => {
                self.errors.push(Note {
                    at: stage.at,
                    message: "FROM scratch is not supported: a template needs a system to run in"
                        .to_owned(),
                });
                return;
            }
        };
        let above = above.map(|place| &self.stages[place]);
        let mut sets_user = above.is_some_and(|above| above.sets_user);
        let mut sets_directory = above.is_some_and(|above| above.sets_directory);
        let mut steps = Vec::new();
        if above.is_none() {
            // As in Docker, whatever the base ends with.
            steps.push(own(stage.at, "USER", ["root"]));
            steps.push(own(stage.at, "WORKDIR", ["/"]));
        }
        let mut arguments: Vec<(String, String)> = Vec::new();
        for Placed { at, value } in &stage.instructions {
            let action = match value {
                Instruction::Run(command) => {
                    let exports: String = arguments
                        .iter()
                        .map(|(name, value)| format!("export {name}={}; ", in_shell(value)))
                        .collect();
                    Action::Step(step("RUN", [format!("{exports}{command}")]))
                }
                Instruction::Copy(copy) => self.copy(*at, copy),
                Instruction::Environment(pairs) => {
                    arguments.retain(|(name, _)| pairs.iter().all(|(set, _)| set != name));
                    Action::Step(step("ENV", words_of(pairs)))
                }
                Instruction::Argument(name, value) => {
                    arguments.retain(|(set, _)| set != name);
                    arguments.push((name.clone(), value.clone()));
                    continue;
                }
                Instruction::WorkDirectory(path) => {
                    sets_directory = true;
                    Action::Step(step("WORKDIR", [path.clone()]))
                }
                Instruction::User(user) => {
                    sets_user = true;
                    Action::Step(step("USER", [user.clone()]))
                }
            };
            steps.push(PlannedStep { at: *at, action });
        }
        self.places[index] = Some(self.stages.len());
        self.stages.push(PlannedStage {
            name: stage.name.clone().unwrap_or_else(|| index.to_string()),
            at: stage.at,
            base,
            steps,
            start: stage.start_command.clone(),
            sets_user,
            sets_directory,
        });
    }

    fn copy(&mut self, at: Position, copy: &Copy) -> Action {
        let stage = match &copy.from {
            CopySource::Context(_) | CopySource::Inline(_) => return Action::Files(copy.clone()),
            CopySource::Stage(index, _) => self.places[*index].unwrap_or_default(),
            CopySource::Image(name, _) => self.image(at, name),
        };
        let copy = copy.clone();
        Action::From { stage, copy }
    }

    /// The build of an image that only files are copied out of.
    fn image(&mut self, at: Position, name: &str) -> usize {
        let base = PlannedBase::Named(name.to_owned());
        let known = self
            .stages
            .iter()
            .position(|stage| stage.base == base && stage.steps.is_empty());
        known.unwrap_or_else(|| {
            let word = |letter: char| {
                if letter.is_ascii_alphanumeric() {
                    letter.to_ascii_lowercase()
                } else {
                    '-'
                }
            };
            self.stages.push(PlannedStage {
                name: format!("image-{}", name.chars().map(word).collect::<String>()),
                at,
                base,
                steps: Vec::new(),
                start: None,
                sets_user: true,
                sets_directory: true,
            });
            self.stages.len() - 1
        })
    }
}

/// Variables as words of one step. All values see what was before the instruction, so those that
/// refer to something go first.
fn words_of(pairs: &[(String, String)]) -> Vec<String> {
    let is_set_twice = |name: &String| pairs.iter().filter(|(set, _)| set == name).count() > 1;
    let mut pairs: Vec<_> = pairs.iter().collect();
    if !pairs.iter().any(|(name, _)| is_set_twice(name)) {
        pairs.sort_by_key(|(_, value)| !value.contains("${"));
    }
    let words = pairs.into_iter().flat_map(|(name, value)| [name, value]);
    words.cloned().collect()
}

/// A step as it is sent.
pub(super) fn step(kind: &str, words: impl IntoIterator<Item = String>) -> BuildStep {
    BuildStep {
        kind: kind.to_owned(),
        args: Some(words.into_iter().collect()),
        ..BuildStep::default()
    }
}

/// A step of ours, which the file does not have.
pub(super) fn own(
    at: Position,
    kind: &str,
    words: impl IntoIterator<Item = &'static str>,
) -> PlannedStep {
    let words = words.into_iter().map(str::to_owned);
    PlannedStep {
        at,
        action: Action::Step(step(kind, words)),
    }
}

/// A value as a word of a shell. What only the base knows is left to the shell.
fn in_shell(value: &str) -> String {
    if !value.contains("${") {
        return quoted(value);
    }
    let mut word = String::from("\"");
    let mut letters = value.chars().peekable();
    while let Some(letter) = letters.next() {
        let is_variable = letter == '$' && letters.peek() == Some(&'{');
        if "\"\\`$".contains(letter) && !is_variable {
            word.push('\\');
        }
        word.push(letter);
    }
    word.push('"');
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The plan in words, one line each.
    fn planned(text: &str) -> String {
        let file = Dockerfile::read(text, &[]).unwrap();
        let plan = match plan(&file) {
            Ok(plan) => plan,
            Err(notes) => return notes[0].to_string(),
        };
        let mut lines = Vec::new();
        for stage in &plan.stages {
            lines.push(format!("{}: {:?}", stage.name, stage.base));
            for PlannedStep { at, action } in &stage.steps {
                lines.push(match action {
                    Action::Step(step) => {
                        let args = step.args.clone().unwrap_or_default();
                        format!("{} {} {args:?}", at.line, step.kind)
                    }
                    Action::Files(copy) => format!("{} COPY -> {}", at.line, copy.destination),
                    Action::From { stage, copy } => {
                        format!("{} COPY from {stage} -> {}", at.line, copy.destination)
                    }
                });
            }
            if let Some(start) = &stage.start {
                lines.push(format!("{} START {}", start.at.line, start.value));
            }
        }
        lines.join("\n")
    }

    #[test]
    fn stages_become_builds_and_only_those_that_are_needed() {
        let text = "\
FROM golang AS build
WORKDIR /src
COPY . .
RUN go build
FROM other AS unused
FROM base
COPY --from=build /src/app /bin/
COPY --from=nginx:1 /etc/x /etc/x
ENTRYPOINT [\"/bin/app\"]
CMD [\"serve\"]";
        let expected = "\
build: Named(\"golang\")
1 USER [\"root\"]
1 WORKDIR [\"/\"]
2 WORKDIR [\"/src\"]
3 COPY -> .
4 RUN [\"go build\"]
image-nginx-1: Named(\"nginx:1\")
2: Named(\"base\")
6 USER [\"root\"]
6 WORKDIR [\"/\"]
7 COPY from 0 -> /bin/
8 COPY from 1 -> /etc/x
10 START /bin/app serve";
        assert_eq!(planned(text), expected);
    }

    #[test]
    fn an_argument_is_seen_by_commands_and_is_not_in_the_template() {
        let text = "\
FROM base
ARG V=1.2
RUN echo $V
ARG W=\"it's\"
ENV V=2
RUN echo $V $W";
        let expected = "\
0: Named(\"base\")
1 USER [\"root\"]
1 WORKDIR [\"/\"]
3 RUN [\"export V=1.2; echo $V\"]
5 ENV [\"V\", \"2\"]
6 RUN [\"export W='it'\\\\''s'; echo $V $W\"]";
        assert_eq!(planned(text), expected);
    }

    #[test]
    fn all_values_of_one_instruction_see_what_was_before_it() {
        let planned = planned("FROM base\nENV A=1 B=${A}");
        assert!(
            planned.ends_with(r#"2 ENV ["B", "${A}", "A", "1"]"#),
            "{planned}"
        );
    }

    #[test]
    fn a_stage_on_another_goes_on_where_that_ended() {
        let text = "FROM base AS a\nUSER me\nFROM a\nRUN id";
        let expected = "\
a: Named(\"base\")
1 USER [\"root\"]
1 WORKDIR [\"/\"]
2 USER [\"me\"]
1: Stage(0)
4 RUN [\"id\"]";
        assert_eq!(planned(text), expected);
    }

    #[test]
    fn nothing_to_run_in_is_refused_with_its_place() {
        assert_eq!(
            planned("FROM scratch\nCOPY a /a"),
            "1:1: FROM scratch is not supported: a template needs a system to run in"
        );
    }

    #[test]
    fn what_only_the_base_knows_is_left_to_the_shell() {
        assert_eq!(in_shell("a b"), "'a b'");
        assert_eq!(in_shell("${HOME}/a$b \"c\""), r#""${HOME}/a\$b \"c\"""#);
    }
}
