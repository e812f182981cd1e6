use std::collections::BTreeSet;

use skep_image::fake::FakeRunner;
use skep_image::{CatalogError, Reclaimed};

use crate::workshop::{SMALL, Workshop, recipes, write_done};

crate::tests! {
    layers_of_templates_and_of_running_sandboxes_are_spared,
    nothing_is_collected_while_a_build_runs,
    a_template_that_lost_a_layer_is_not_found_but_can_be_built_again,
    templates_are_listed_with_the_sizes_of_their_layers,
    a_template_answers_to_the_name_of_another_until_that_is_built,
}

fn layers_of_templates_and_of_running_sandboxes_are_spared() {
    let workshop = Workshop::new();
    let other = SMALL.replace("small", "other").replace("second", "last");
    let all = recipes([("small", SMALL), ("other", &other)]);
    let small = workshop.build(&all, "small").0.unwrap();
    let other = workshop.build(&all, "other").0.unwrap();
    assert_eq!(workshop.names("layers").len(), 4);
    let collect = |in_use: &BTreeSet<_>| workshop.catalog.garbage_collect(in_use).unwrap();
    assert_eq!(collect(&BTreeSet::new()), Reclaimed::default());

    assert!(workshop.catalog.remove("other").unwrap());
    assert!(!workshop.catalog.remove("other").unwrap());
    let running: BTreeSet<_> = other.layers.iter().cloned().collect();
    assert_eq!(collect(&running), Reclaimed::default());
    assert!(other.layers[2].exists());

    let reclaimed = collect(&BTreeSet::new());
    assert_eq!(reclaimed.layers, 1);
    assert!(reclaimed.bytes > 0);
    assert!(!other.layers[2].exists());
    assert_eq!(workshop.catalog.find("small").unwrap(), Some(small));
    assert!(workshop.names("building").is_empty());
}

fn nothing_is_collected_while_a_build_runs() {
    let mut workshop = Workshop::new();
    let beside = workshop.beside();
    workshop.runner = FakeRunner::new(move |launch| {
        let refused = beside.catalog.garbage_collect(&BTreeSet::new());
        assert!(matches!(refused, Err(CatalogError::BuildRunning { .. })));
        write_done(launch)
    });
    let image = workshop
        .build(&recipes([("small", SMALL)]), "small")
        .0
        .unwrap();
    assert!(image.layers.iter().all(|layer| layer.exists()));
}

fn a_template_that_lost_a_layer_is_not_found_but_can_be_built_again() {
    let workshop = Workshop::new();
    let all = recipes([("small", SMALL)]);
    let image = workshop.build(&all, "small").0.unwrap();
    let layer = image.layers[1].parent().unwrap();
    std::fs::remove_dir_all(layer).unwrap();
    let damaged = workshop.catalog.find("small");
    assert!(matches!(damaged, Err(CatalogError::LayerMissing { .. })));
    assert_eq!(workshop.build(&all, "small").0.unwrap(), image);
}

fn templates_are_listed_with_the_sizes_of_their_layers() {
    let workshop = Workshop::new();
    workshop
        .build(&recipes([("small", SMALL)]), "small")
        .0
        .unwrap();
    let listed = workshop.catalog.list().unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].description, "three layers");
    let titles: Vec<_> = listed[0].layers.iter().map(|layer| &layer.title).collect();
    assert_eq!(titles, ["bootstrap Debian trixie", "first", "second"]);
}

fn a_template_answers_to_the_name_of_another_until_that_is_built() {
    let workshop = Workshop::new();
    let small_text = SMALL.replace("[from]", "stands_in_for = [\"whole\"]\n[from]");
    let whole = SMALL.replace("small", "whole");
    let all = recipes([("small", &small_text), ("whole", &whole)]);
    let names = || -> Vec<Vec<String>> {
        let listed = workshop.catalog.list().unwrap().into_iter();
        listed.map(|template| template.names).collect()
    };
    let small = workshop.build(&all, "small").0.unwrap();
    assert_eq!(workshop.catalog.find("whole").unwrap(), Some(small));
    assert_eq!(names(), [["small", "whole"]]);

    // One that has more in it comes nearer, whatever it is called.
    let more = "\n[[step]]\nrun = \"touch third\"\n";
    let larger = small_text.replace("\"small\"", "\"larger\"") + more;
    let larger = recipes([("larger", larger.as_str())]);
    let larger = workshop.build(&larger, "larger").0.unwrap();
    assert_eq!(workshop.catalog.find("whole").unwrap(), Some(larger));
    assert_eq!(names(), [vec!["larger", "whole"], vec!["small"]]);
    assert!(workshop.catalog.remove("larger").unwrap());

    let whole = workshop.build(&all, "whole").0.unwrap();
    assert_eq!(workshop.catalog.find("whole").unwrap(), Some(whole));
    assert_eq!(names(), [["small"], ["whole"]]);

    assert!(workshop.catalog.remove("whole").unwrap());
    let found = workshop.catalog.find("whole").unwrap().unwrap();
    assert_eq!(found.name, "small");
}
