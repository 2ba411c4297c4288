//! Ten thousand actors with a hundred thousand pairs.

use std::sync::Arc;

use counters::CounterSeries::{Busy, Bytes, Messages, Processed};
use counters::{Collector, GroupProfile, Roster, RosterApplication, Sample, WindowChoice, Windows};

use crate::{application, profiles, running, scale};

const APPLICATIONS: usize = 20;
const ACTORS: usize = 500;
const PEERS: usize = 10;

#[test]
fn a_tick_of_ten_thousand_actors_is_kept_and_measured() {
    let applications = (0..APPLICATIONS).map(|at| {
        let actors = (0..ACTORS).map(|actor| {
            let actor = running(&format!("a-{actor}"), "cpu", 1.0);
            counters::RunningActor { pod: format!("{at}-{}", actor.name), ..actor }
        });
        RosterApplication { name: format!("web-{at}"), actors: actors.collect(), ..application(&[]) }
    });
    let roster = Arc::new(Roster::new(applications.collect()));
    let all = || (0..APPLICATIONS).flat_map(|at| (0..ACTORS).map(move |actor| (at, actor)));
    let names: Vec<(String, String)> =
        all().map(|(at, actor)| (format!("{at}-a-{actor}"), format!("a-{actor}"))).collect();
    let peers: Vec<(usize, String)> = all()
        .enumerate()
        .flat_map(|(position, (at, actor))| {
            let peer = move |next| (position, format!("shop/web-{at}/a-{}", (actor + next) % ACTORS));
            (1..=PEERS).map(peer)
        })
        .collect();
    let mut kept: Vec<Windows> = (0..APPLICATIONS).map(|_| Windows::new(scale())).collect();
    for window in 0..3_u8 {
        let mut collector = Collector::new(roster.clone());
        for series in [Messages, Bytes] {
            collector.add(
                series,
                peers.iter().map(|(position, peer)| Sample {
                    namespace: "shop",
                    pod: &names[*position].0,
                    actor: &names[*position].1,
                    peer,
                    value: 100.0 + f64::from(window),
                }),
            );
        }
        for series in [Processed, Busy] {
            let sample = |(pod, actor)| Sample { namespace: "shop", pod, actor, peer: "", value: 2.0 };
            collector.add(series, names.iter().map(|(pod, actor)| sample((pod, actor))));
        }
        let collected = collector.finish();
        assert!(collected.refused.is_empty());
        for (windows, collected) in kept.iter_mut().zip(&collected.windows) {
            windows.add(f64::from(window), collected, true);
        }
    }
    let profile: GroupProfile = profiles(&[("a", ACTORS, &["a"])]).remove("a").unwrap();
    let profiles = [("a".to_owned(), profile)].into();
    for windows in &kept {
        let measured = windows.measure(&profiles, WindowChoice::All);
        // 5,000 equal pairs, each more than one in 10,000, are all listed.
        assert_eq!((measured.pairs.len(), measured.group_messages.len()), (ACTORS * PEERS, 0));
        assert!(measured.pairs.values().all(|count| *count == 101));
        assert_eq!(measured.work.len(), ACTORS);
        assert_eq!(measured.coverage(), (ACTORS, ACTORS));
    }
}
