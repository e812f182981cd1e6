use std::collections::BTreeMap;
use std::error::Error;

use skep_image::{Action, Recipe, RecipeSource};

crate::tests! {
    a_misspelt_key_is_shown_with_the_one_that_was_meant,
    a_key_that_is_missing_or_means_nothing_yet_is_named,
    an_origin_is_one_thing,
    a_step_does_one_thing,
    values_that_would_become_something_else_are_refused,
    a_copy_knows_what_where_and_how,
    a_folder_is_copied_with_everything_below_it,
}

const HEAD: &str = "name = \"x\"\ndescription = \"y\"\n[from]\ndebian = \"trixie\"\n";

fn parse(text: &str) -> Result<Recipe, skep_image::RecipeError> {
    let files = [("files/a/one", "1"), ("files/two", "2")];
    Recipe::parse(&RecipeSource {
        text: text.to_owned().into(),
        files: files
            .into_iter()
            .map(|(path, content)| (path.to_owned(), content.as_bytes().into()))
            .collect::<BTreeMap<_, _>>(),
    })
}

/// Message that the author of a wrong recipe reads.
fn refusal(text: &str) -> String {
    let error = parse(text).expect_err(text);
    let mut told = format!("error: {error}\n");
    if let Some(source) = error.source() {
        told.push_str(&source.to_string());
    }
    if let Some(hint) = error.hint() {
        told.push_str(&format!("hint: {hint}\n"));
    }
    told
}

fn refused_step(step: &str) -> String {
    refusal(&format!("{HEAD}[[step]]\n{step}\n"))
}

fn a_misspelt_key_is_shown_with_the_one_that_was_meant() {
    insta::assert_snapshot!(
        [
            refusal(&HEAD.replace("debian", "debain")),
            refused_step("runn = \"true\""),
        ]
        .join("\n")
    );
}

fn a_key_that_is_missing_or_means_nothing_yet_is_named() {
    insta::assert_snapshot!(
        [
            refusal("name = \"x\"\n"),
            refusal(&format!("preload = \"x\"\n{HEAD}")),
            refusal(&format!("start = \" \"\n{HEAD}")),
        ]
        .join("\n")
    );
}

fn an_origin_is_one_thing() {
    let template = "template = \"base\"\npackages = [\"jq\"]";
    insta::assert_snapshot!(
        [
            refusal(&format!("{HEAD}template = \"base\"\n")),
            refusal(&HEAD.replace("debian = \"trixie\"", "")),
            refusal(&HEAD.replace("debian = \"trixie\"", template)),
        ]
        .join("\n")
    );
}

fn a_step_does_one_thing() {
    insta::assert_snapshot!(
        [
            refused_step(""),
            refused_step("run = \"true\"\nuser = \"user\""),
            refused_step("run = \"  \""),
            refused_step("user = \"user\"\nas = \"root\""),
        ]
        .join("\n")
    );
}

fn values_that_would_become_something_else_are_refused() {
    insta::assert_snapshot!(
        [
            refusal(&HEAD.replace("trixie", "--help")),
            refusal(&format!("{HEAD}packages = [\"jq,--aptopt\"]\n")),
            refusal(&format!("{HEAD}without = [\"/a\\nforce-all\"]\n")),
            refused_step("user = \"; exit 1\""),
            refused_step("run = \"true\"\nas = \"-x\""),
            refused_step("env = { \"A=B\" = \"c\" }"),
            refused_step("workdir = \"/a/../b\""),
            refusal(&HEAD.replace("\"x\"", "\"../x\"")),
            refusal(&format!("{HEAD}[resources]\npids = 0\n")),
        ]
        .join("\n")
    );
}

fn a_copy_knows_what_where_and_how() {
    insta::assert_snapshot!(
        [
            refused_step("copy = \"files\""),
            refused_step("copy = \"nope\"\nto = \"/a\""),
            refused_step("copy = \"files\"\nto = \"a\""),
            refused_step("copy = \"files\"\nto = \"/a\"\nowner = \"user\""),
            refused_step("copy = \"files\"\nto = \"/a\"\nmode = \"rw\""),
            refused_step("run = \"x\"\nto = \"/a\""),
        ]
        .join("\n")
    );
}

fn a_folder_is_copied_with_everything_below_it() {
    let recipe = parse(&format!(
        "{HEAD}[[step]]\ncopy = \"files\"\nto = \"/opt/\"\n"
    ))
    .unwrap();
    let Action::Copy { files, .. } = &recipe.steps[0].action else {
        panic!("{recipe:?}");
    };
    let targets: Vec<_> = files.iter().map(|(target, _)| target.as_str()).collect();
    assert_eq!(targets, ["/opt/a/one", "/opt/two"]);
}
