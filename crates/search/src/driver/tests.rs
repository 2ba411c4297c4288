//! Starting chains, collecting results, and probing.

use placement::{Assignment, Budget, Snapshot};

use crate::driver::incumbent::vector;
use crate::driver::search::{AnnealingSearch, SearchInstance};

/// 48 actors that fill twelve units exactly: load balancing leaves a little overload somewhere.
#[test]
fn chains_keep_to_the_least_known_overload() {
    let mut rng = fastrand::Rng::with_seed(1);
    let mut actors = Vec::new();
    for unit in 0..12 {
        let mut cuts = [0, rng.u32(1..1_000), rng.u32(1..1_000), rng.u32(1..1_000), 1_000];
        cuts.sort_unstable();
        let works = cuts.windows(2).map(|cut| cut[1] - cut[0]);
        actors.extend(works.filter(|work| *work > 0).map(|work| (unit, work)));
    }
    rng.shuffle(&mut actors);
    let actor = |(at, (_, work)): (usize, &(usize, u32))| format!("a{at}:cpu={work}");
    let units: Vec<String> = (0..12).map(|at| format!("u{at}:cpu:1000:node=n{at}")).collect();
    let named: Vec<String> = actors.iter().enumerate().map(actor).collect();
    let snapshot = testkit::line::world(&units.join(" "), &named.join(" "), "a0 to a1 1");
    let full = testkit::line::places(actors.iter().map(|(unit, _)| Some(*unit)));
    assert_eq!(snapshot.violations(&full), []);
    let instance = SearchInstance::new(&snapshot, &|| false);
    let allowances = |offered: Option<&Assignment>| {
        let mut search = AnnealingSearch::new(&instance, &snapshot.incumbent(), 1, &|| false);
        if let Some(offered) = offered {
            search.offer(offered);
        }
        assert!(search.start_chains(&Budget::effort(None, 1)));
        search.chains.iter().map(|chain| chain.annealer.solution.overload_allowance).collect::<Vec<_>>()
    };
    assert!(
        allowances(None).iter().all(|allowance| *allowance > 0),
        "load balancing alone leaves overload here"
    );
    assert_eq!(allowances(Some(&full)), [0, 0]);
}

/// Three actors that slightly overload one unit, and a feasible placement on three units.
fn three_tied_actors() -> (Snapshot, Assignment) {
    let units = "u:cpu:10:node=n0 v:cpu:10:node=n1 w:cpu:10:node=n2";
    let ties = "a to b 10; a to c 10; b to c 10";
    let snapshot = testkit::line::world(units, "a:cpu=6 b:cpu=3 c:cpu=2", ties);
    (snapshot, testkit::line::places([Some(0), Some(1), Some(2)]))
}

#[test]
fn a_slightly_overloaded_end_of_a_run_is_balanced() {
    let (snapshot, apart) = three_tied_actors();
    let instance = SearchInstance::new(&snapshot, &|| false);
    let best = |unfinished: Option<Assignment>| {
        let mut search = AnnealingSearch::new(&instance, &apart, 1, &|| false);
        search.unfinished_places = unfinished.map(|places| search.model.places(&places));
        search.best(&Budget::effort(None, 1))
    };
    assert_eq!(best(None), apart);
    let found = best(Some(testkit::line::places([Some(0); 3])));
    assert_eq!(snapshot.violations(&found), []);
    assert!(vector(&snapshot, &found) < vector(&snapshot, &apart), "{found:?}");
}

#[test]
fn the_end_of_a_run_is_kept_until_a_run_improves_within_the_limits() {
    let (snapshot, apart) = three_tied_actors();
    let instance = SearchInstance::new(&snapshot, &|| false);
    let budget = Budget::effort(None, 1);
    let mut search = AnnealingSearch::new(&instance, &apart, 1, &|| false);
    assert!(search.start_chains(&budget));
    search.collect_result(0);
    assert_eq!(search.unfinished_places.as_ref(), Some(&search.chains[0].annealer.solution.place));
    assert!(!search.has_improved);
    let run = search.chains[0].batches_left();
    assert_eq!(search.run(run, &budget), run);
    assert!(search.has_improved);
    assert_eq!(search.unfinished_places, None);
}

#[test]
fn an_abandoned_quench_finds_nothing() {
    let snapshot = testkit::line::world("u:cpu:9 v:cpu:9", "a:cpu=1 b:cpu=1", "a to b 1");
    let instance = SearchInstance::new(&snapshot, &|| false);
    let mut search = AnnealingSearch::new(&instance, &snapshot.incumbent(), 1, &|| false);
    assert_eq!(search.run(1, &Budget::effort(None, 1)), 1);
    let chain = &search.chains[0];
    assert!(chain.quenched(&|_| false).is_some());
    for abandoned_at in [0.0, 0.45, 0.95] {
        assert_eq!(chain.quenched(&|fraction| fraction >= abandoned_at), None);
    }
}
