//! Each policy file by itself: a few facts, and the optimum.

/// The optimum of the built-in rules over these facts: placements and vector.
fn best(facts: &str) -> String {
    let optimum = asp::optimum(facts).unwrap().unwrap();
    format!("{} {:?}", optimum.atoms.join(" "), optimum.vector).replace(", ", ",")
}

/// Two actors that cannot share a unit, because each has one candidate.
const TWO_APART: &str =
    "level(unplaced,9). cu(u). cu(v). of_set(a,0). of_set(b,1). candidate(0,u). candidate(1,v).
    cu_kind(u,x). cu_kind(v,y). cu_node(u,m). cu_node(v,n).";

/// Two actors, each with both units as candidates.
const TWO_FREE: &str =
    "level(unplaced,9). cu(u). cu(v). of_set(a,0). of_set(b,0). candidate(0,u). candidate(0,v).
    cu_kind(u,x). cu_kind(v,x). cu_node(u,n). cu_node(v,n).";

fn apart(facts: &str) -> Vec<i64> {
    asp::optimum(&format!("{TWO_APART} {facts}")).unwrap().unwrap().vector
}

fn free(facts: &str) -> String {
    best(&format!("{TWO_FREE} {facts}"))
}

#[test]
fn choose_gives_every_actor_one_candidate_or_none_at_a_price() {
    let facts = "level(unplaced,1). of_set(a,0). candidate(0,u). of_set(b,1). fixed(c,v).";
    assert_eq!(best(facts), "run_on(a,u) run_on(c,v) [1]");
}

#[test]
fn every_level_is_reported_even_if_it_is_constant() {
    assert_eq!(apart("level(communication,2). level(annoyance,1)."), [0, 0, 0]);
}

#[test]
fn overload_is_the_difference_of_the_extremes() {
    let bits = "most_bit(0,1). most_bit(1,2). most_bit(2,4). level(overload,1).";
    let loads = "work(a,x,5). work(b,x,6).";
    // One on each: overloads of 1 and 2, and the unit with headroom keeps the smallest at 0.
    assert_eq!(free(&format!("{bits} {loads} headroom(u,4). cu(w).")), "run_on(a,v) run_on(b,v) [0,0]");
    let both = format!("{bits} {loads} headroom(u,4). headroom(v,4).");
    assert!(free(&both).ends_with("[0,2]"), "{}", free(&both));
    // Both overloaded: the difference counts.
    let least = "least_bit(0,1). least_bit(1,2). least_bit(2,4).";
    assert!(free(&format!("{both} {least}")).ends_with("[0,1]"));
    // Fixed actors leave negative headroom.
    let overfilled = free(&format!("{bits} headroom(u,-3). work(a,x,1). work(b,x,1)."));
    assert_eq!(overfilled, "run_on(a,v) run_on(b,v) [0,3]");
}

#[test]
fn communication_is_rate_times_the_sum_of_the_classes() {
    let rate = "level(communication,1). msg_exch_rate(a,b,2). kind_cost(x,x,1). kind_cost(x,y,5).";
    assert_eq!(apart(rate), [0, 10], "the two kinds");
    assert_eq!(apart(&format!("{rate} other_node(30).")), [0, 70], "two nodes");
    let zones = "other_zone(7). cu_zone(u,s).";
    assert_eq!(apart(&format!("{rate} {zones}")), [0, 24], "a zone that is not known differs");
    assert_eq!(apart(&format!("{rate} {zones} cu_zone(v,s).")), [0, 10], "one zone");
    assert_eq!(apart(&format!("{rate} other_numa(7).")), [0, 10], "domains count inside a node only");
    assert_eq!(
        apart(&format!("{rate} pair_extra(u,v,-4). pair_extra(v,u,-4).")),
        [0, 2],
        "a link of its own"
    );
    assert_eq!(
        apart("level(communication,1). msg_exch_rate(a,b,3). kind_cost(x,y,0)."),
        [0, 0],
        "a free pair"
    );
}

#[test]
fn domains_count_between_units_of_one_node() {
    let one_node = "level(unplaced,9). level(communication,1). cu(u). cu(v). cu_kind(u,x). cu_kind(v,x).
        cu_node(u,n). cu_node(v,n). of_set(a,0). of_set(b,1). candidate(0,u). candidate(1,v).
        msg_exch_rate(a,b,2). kind_cost(x,x,1). other_node(100). other_numa(3).";
    let vector = |facts: &str| asp::optimum(&format!("{one_node} {facts}")).unwrap().unwrap().vector;
    assert_eq!(vector(""), [0, 8], "domains that are not known differ");
    assert_eq!(vector("cu_numa(u,0). cu_numa(v,0)."), [0, 2]);
    assert_eq!(vector("cu_numa(u,0). cu_numa(v,1)."), [0, 8]);
}

/// Tuples of two criteria, or of two classes, must name them, or equal values would count once.
#[test]
fn equal_costs_on_one_level_both_count() {
    let rate = "level(communication,1). msg_exch_rate(a,b,1). kind_cost(x,x,5). kind_cost(x,y,10).";
    assert_eq!(apart(&format!("{rate} other_node(5). other_zone(5).")), [0, 20], "classes");
    let drags =
        "level(annoyance,1). mutual_annoyance(a,b,10). level(migration,1). current(a,v). move_cost(a,10).";
    assert_eq!(apart(&format!("{rate} {drags}")), [0, 30], "criteria");
    assert_eq!(
        apart(&format!("{rate} level(annoyance,1). mutual_annoyance(a,b,11).")),
        [0, 21],
        "unequal ones"
    );
}

#[test]
fn annoyance_counts_apart_and_interference_together() {
    let annoyed = "level(annoyance,1). mutual_annoyance(a,b,3).";
    assert_eq!(apart(annoyed), [0, 3]);
    assert!(free(annoyed).ends_with("[0,0]"));
    let disturbed = "level(interference,1). interferes(a,b,4).";
    assert_eq!(apart(disturbed), [0, 0]);
    let crowded = format!("{disturbed} level(annoyance,2). mutual_annoyance(a,b,3).");
    assert!(free(&crowded).ends_with("[0,0,4]"), "{}", free(&crowded));
}

#[test]
fn migration_counts_actors_that_moved() {
    let moved = "level(migration,1). current(a,v). move_cost(a,7). current(b,v). move_cost(b,7).";
    assert_eq!(apart(moved), [0, 7]);
    assert_eq!(free(moved), "run_on(a,v) run_on(b,v) [0,0]");
    let nowhere = "level(unplaced,2). level(migration,1). of_set(a,0). current(a,u). move_cost(a,7).";
    assert_eq!(best(nowhere), " [1,7]", "what lost its place has left it");
}

#[test]
fn preferences_count_if_the_actor_is_elsewhere() {
    let preferred = "level(policy,1). prefer(a,v,5). prefer(b,v,5).";
    assert_eq!(apart(preferred), [0, 5]);
    assert_eq!(free(preferred), "run_on(a,v) run_on(b,v) [0,0]");
    let nowhere = "level(unplaced,2). level(policy,1). of_set(a,0). prefer(a,u,5).";
    assert_eq!(best(nowhere), " [1,0]");
}

#[test]
fn limits_bind_movable_actors() {
    let one_slot = "slots_left(u,1). slots_left(v,0).";
    assert!(free(one_slot).ends_with("[1]"));
    assert!(free("slots_left(u,1). slots_left(v,1).").ends_with("[0]"));
    let memory = "requires(a,x,mem,2). requires(b,x,mem,3).";
    assert_eq!(
        free(&format!("{memory} unit_left(u,mem,2). unit_left(v,mem,4).")),
        "run_on(a,u) run_on(b,v) [0]"
    );
    assert!(free(&format!("{memory} unit_left(u,mem,1). unit_left(v,mem,4).")).ends_with("[1]"));
    let cores = "node_requires(a,x,cpu,2). node_requires(b,x,cpu,3).";
    assert!(free(&format!("{cores} node_left(n,cpu,4).")).ends_with("[1]"), "the units of a node share");
    assert!(free(&format!("{cores} node_left(n,cpu,5).")).ends_with("[0]"));
    // A fixed actor is already subtracted.
    assert_eq!(
        best("level(unplaced,1). of_set(a,0). candidate(0,u). cu_kind(u,x). fixed(b,u). slots_left(u,1)."),
        "run_on(a,u) run_on(b,u) [0]"
    );
}

#[test]
fn relations_hold_on_every_topology_level() {
    let members = "member(0,a). member(0,b).";
    for level in ["unit", "numa", "node", "zone"] {
        let wanted = format!("{members} together_on(0,{level}).");
        let alone = matches!(level, "unit" | "numa" | "zone");
        let known = "cu_numa(u,0). cu_numa(v,0). cu_zone(u,z). cu_zone(v,z).";
        // On one node, in unknown domains and zones.
        assert!(free(&wanted).ends_with("[0]"), "{level}");
        assert!(free(&format!("{members} apart_on(0,{level}).")).ends_with(if alone {
            "[0]"
        } else {
            "[1]"
        }));
        // In known ones the two units are together, except on the level of units.
        let apart_on_known = free(&format!("{members} apart_on(0,{level}). {known}"));
        assert!(apart_on_known.ends_with(if level == "unit" { "[0]" } else { "[1]" }), "{level}");
    }
    let unit = |facts: &str| best(&format!("{TWO_APART} {members} {facts}"));
    assert!(unit("together_on(0,unit).").ends_with("[1]"), "who has no place is not bound");
    assert!(unit("together_on(0,node).").ends_with("[1]"));
    assert!(unit("apart_on(0,node).").ends_with("[0]"));
}

#[test]
fn fixed_actors_bind_others_and_not_each_other() {
    let fixed = "member(0,c). member(0,d). fixed(c,u). fixed(d,u). member(0,a).";
    assert_eq!(
        free(&format!("{fixed} apart_on(0,unit). slots_left(v,1).")).matches("run_on(a,v)").count(),
        1
    );
    assert!(free(&format!("{fixed} together_on(0,unit).")).contains("run_on(a,u)"));
    let torn = "member(0,c). member(0,d). fixed(c,u). fixed(d,v). member(0,a).";
    assert!(
        free(&format!("{torn} together_on(0,unit).")).ends_with("[1]"),
        "nowhere is it together with both"
    );
}

#[test]
fn the_incumbent_is_the_first_model() {
    let indifferent = "start(a,v). start(b,v).";
    assert_eq!(free(indifferent), "run_on(a,v) run_on(b,v) [0]");
    assert_eq!(free("start(a,u). start(b,v)."), "run_on(a,u) run_on(b,v) [0]");
}

#[test]
fn invalid_facts_are_an_error() {
    assert!(asp::optimum("cu(").unwrap_err().to_string().contains("pars"));
}

#[test]
fn the_bottleneck_is_the_most_loaded_unit() {
    let bits =
        "peak_bit(0,1024). peak_bit(1,512). peak_bit(2,256). peak_bit(3,128). peak_bit(4,64). peak_bit(5,32).
        peak_bit(6,16). peak_bit(7,8). peak_bit(8,4). peak_bit(9,2). peak_bit(10,1). level(bottleneck,1).";
    let loads = "work(a,x,5). work(b,x,6). full(u,9,0).";
    assert_eq!(
        free(&format!("{bits} {loads} full(v,7,0).")),
        "run_on(a,v) run_on(b,u) [0,715]",
        "5/7 and 6/9"
    );
    assert_eq!(
        free(&format!("{bits} {loads} full(v,20,15000).")),
        "run_on(a,v) run_on(b,u) [0,1000]",
        "three quarters of v are taken, and it is full with a"
    );
}

#[test]
fn units_in_use_count_once_and_foreign_ones_do_not() {
    assert!(free("level(consolidate,1). counted(u). counted(v).").ends_with("[0,1]"));
    assert_eq!(free("level(consolidate,1). counted(u)."), "run_on(a,v) run_on(b,v) [0,0]");
    assert_eq!(apart("level(consolidate,1). counted(u). counted(v)."), [0, 2]);
}

#[test]
fn energy_is_idle_power_plus_power_by_load() {
    let watts = "level(energy,1). work(a,x,5). work(b,x,6). idle_watts(u,3). idle_watts(v,4).";
    assert_eq!(free(watts), "run_on(a,u) run_on(b,u) [0,3]");
    let bits =
        |unit| (0..6).map(|bit| format!("watt_bit({unit},{bit},{}).", 1 << bit)).collect::<Vec<_>>().concat();
    let meters = format!("{watts} meter(u,10,4,0). {} {}", bits("u"), "");
    assert_eq!(free(&meters), "run_on(a,v) run_on(b,v) [0,4]", "28 W for 11 of 4");
    // Foreign actors draw 3 W of v already: 3 + 28 W on u and 3 W there, or 4 + 30 W on v.
    let both = format!("{meters} meter(v,10,4,10). {}", bits("v"));
    assert!(free(&both).ends_with("[0,34]"), "{}", free(&both));
}

#[test]
fn a_cap_on_power_counts_both() {
    let cap = "idle_watts(u,3). capped(0,u). capped(0,v). work(a,x,5). work(b,x,6). meter(u,2,2,0). watt_bit(u,0,1).
        watt_bit(u,1,2). watt_bit(u,2,4). watt_bit(u,3,8).";
    assert_eq!(free(&format!("power_left(0,14). {cap} :- run_on(_,v).")), "run_on(a,u) run_on(b,u) [0]");
    assert!(free(&format!("power_left(0,13). {cap} :- run_on(_,v).")).ends_with("[1]"), "11 W and 3 W");
    assert_eq!(free(&format!("power_left(0,2). {cap}")), "run_on(a,v) run_on(b,v) [0]");
}

#[test]
fn spread_is_the_largest_count_of_a_group_in_one_zone() {
    let groups = "level(spread,1). in_group(a,0). in_group(b,0). crowd_bit(0,0,1). crowd_bit(0,1,2).";
    assert!(free(&format!("{groups} cu_zone(u,y). cu_zone(v,z).")).ends_with("[0,1]"));
    assert!(free(groups).ends_with("[0,1]"), "zones that are not known differ");
    assert!(free(&format!("{groups} cu_zone(u,y). cu_zone(v,y).")).ends_with("[0,2]"));
    let others = "in_group(c,0). fixed(c,u). in_group(d,0). fixed(d,u). cu_zone(u,y). cu_zone(v,z).";
    assert!(free(&format!("{groups} {others}")).contains("run_on(a,v) run_on(b,v)"), "two are there already");
}

#[test]
fn latency_is_the_longest_path() {
    let bits =
        "until_bit(0,1). until_bit(1,2). until_bit(2,4). until_bit(3,8). until_bit(4,16). level(latency,1).";
    let path = "kind_cost(x,x,1). kind_cost(x,y,5). kind_cost(y,y,1). sends(b,a). link(a,b).";
    assert_eq!(apart(&format!("{bits} {path}")), [0, 5]);
    let chain = "sends(a,c). link(a,c). fixed(c,v).";
    assert_eq!(apart(&format!("{bits} {path} {chain}")), [0, 10], "from v to u and back");
    assert_eq!(
        apart(&format!("{bits} {path} other_node(3). pair_extra(u,v,-2). pair_extra(v,u,-2).")),
        [0, 6]
    );
}

/// The exact sums are 5 and 6 on two units of 5; the mean is 5 for both.
#[test]
fn the_approximated_workload_is_actors_times_the_mean() {
    let facts = format!(
        "{TWO_APART} level(overload,1). most_bit(0,1). most_bit(1,2). work(a,x,4). work(b,y,6). work(b,x,7).
         headroom(u,5). headroom(v,5)."
    );
    assert_eq!(asp::optimum(&facts).unwrap().unwrap().vector, [0, 1]);
    let approximated = asp::optimum_approximated(&facts).unwrap().unwrap();
    // By kind: on x the mean of 4 and 7 is 5, on y it is 6.
    assert_eq!(approximated.vector, [0, 1]);
    let even = facts.replace("work(b,y,6)", "work(b,y,6). work(a,y,3)");
    assert_eq!(asp::optimum_approximated(&even).unwrap().unwrap().vector, [0, 0], "on y it is 4 now");
}
