//! Strongly connected components of statements, in the order in which they are grounded.

use std::collections::BTreeMap;

use crate::syntax::Statement;

/// Strongly connected components of a graph, each after all that it reaches (Tarjan's algorithm, without recursion).
pub(crate) fn components(edges: &[Vec<usize>]) -> Vec<Vec<usize>> {
    const NEW: usize = usize::MAX;
    let mut number = vec![NEW; edges.len()];
    let mut lowest = vec![0; edges.len()];
    let mut is_open = vec![false; edges.len()];
    let (mut open, mut found, mut next) = (Vec::new(), Vec::new(), 0);
    for start in 0..edges.len() {
        let mut path = if number[start] == NEW { vec![(start, 0)] } else { Vec::new() };
        while let Some((at, edge)) = path.last_mut() {
            let at = *at;
            if number[at] == NEW {
                (number[at], lowest[at], is_open[at]) = (next, next, true);
                open.push(at);
                next += 1;
            }
            if let Some(&to) = edges[at].get(*edge) {
                *edge += 1;
                if number[to] == NEW {
                    path.push((to, 0));
                } else if is_open[to] {
                    lowest[at] = lowest[at].min(number[to]);
                }
                continue;
            }
            path.pop();
            if let Some((above, _)) = path.last() {
                lowest[*above] = lowest[*above].min(lowest[at]);
            }
            if lowest[at] == number[at] {
                let first = open.iter().rposition(|other| *other == at).unwrap_or(0);
                let component = open.split_off(first);
                for member in &component {
                    is_open[*member] = false;
                }
                found.push(component);
            }
        }
    }
    found
}

/// Statements grouped by strongly connected component, in topological order: by the number of rules that they depend on. First
/// those without a body, each alone.
pub(crate) fn groups(statements: &[Statement]) -> Vec<Vec<usize>> {
    let (facts, rules): (Vec<usize>, Vec<usize>) =
        (0..statements.len()).partition(|at| statements[*at].body.is_empty());
    let groups = facts.into_iter().map(|fact| vec![fact]);
    let of_rules = groups_of(&rules.iter().map(|at| &statements[*at]).collect::<Vec<_>>());
    groups.chain(of_rules.into_iter().map(|group| group.into_iter().map(|at| rules[at]).collect())).collect()
}

/// The same for rules, by position among these.
fn groups_of(rules: &[&Statement]) -> Vec<Vec<usize>> {
    // Rules lead to the predicates that they read, and these to the rules that conclude them.
    let mut edges: Vec<Vec<usize>> = vec![Vec::new(); rules.len()];
    let mut predicates: BTreeMap<(&str, usize), usize> = BTreeMap::new();
    for (position, rule) in rules.iter().enumerate() {
        let Some(head) = rule.concludes() else { continue };
        let node = *predicates.entry(head).or_insert(edges.len());
        if node == edges.len() {
            edges.push(Vec::new());
        }
        edges[node].push(position);
    }
    for (position, rule) in rules.iter().enumerate() {
        let read = rule.reads().filter_map(|(_, atom)| predicates.get(&atom.predicate()).copied());
        let mut read: Vec<usize> = read.collect();
        read.sort_unstable();
        read.dedup();
        edges[position] = read;
    }
    let components = components(&edges);
    let mut component_of = vec![0; edges.len()];
    for (component, members) in components.iter().enumerate() {
        for member in members {
            component_of[*member] = component;
        }
    }
    // By component: the rules that it reaches, with its own, as a bit set.
    let mut reached: Vec<Vec<u64>> = Vec::with_capacity(components.len());
    for (component, members) in components.iter().enumerate() {
        let mut bits = vec![0u64; rules.len().div_ceil(64)];
        for &member in members {
            if member < rules.len() {
                bits[member / 64] |= 1 << (member % 64);
            }
            for other in edges[member].iter().map(|to| component_of[*to]).filter(|other| *other != component)
            {
                bits.iter_mut().zip(&reached[other]).for_each(|(bits, more)| *bits |= more);
            }
        }
        reached.push(bits);
    }
    let count: Vec<u32> =
        reached.iter().map(|bits| bits.iter().map(|word| word.count_ones()).sum()).collect();
    let mut order: Vec<usize> = (0..rules.len()).collect();
    order.sort_by_key(|at| (count[component_of[*at]], *at));
    let mut is_done = vec![false; components.len()];
    let mut groups = Vec::new();
    for component in order.into_iter().map(|at| component_of[at]) {
        if !is_done[component] {
            is_done[component] = true;
            let members = components[component].iter().copied();
            let mut group: Vec<usize> = members.filter(|member| *member < rules.len()).collect();
            group.sort_unstable();
            groups.push(group);
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fmt::Write as _;

    use super::*;
    use crate::parse::parse;

    /// The definition: every rule with all that it reaches.
    fn by_reachability(rules: &[&Statement]) -> Vec<Vec<usize>> {
        let uses = |rule: &Statement| -> Vec<usize> {
            let read: BTreeSet<_> = rule.reads().map(|(_, atom)| atom.predicate()).collect();
            let concludes = |other: &Statement| other.concludes().is_some_and(|head| read.contains(&head));
            (0..rules.len()).filter(|at| concludes(rules[*at])).collect()
        };
        let reaches: Vec<BTreeSet<usize>> = rules
            .iter()
            .map(|rule| {
                let (mut seen, mut next) = (BTreeSet::new(), uses(rule));
                while let Some(at) = next.pop() {
                    if seen.insert(at) {
                        next.extend(uses(rules[at]));
                    }
                }
                seen
            })
            .collect();
        let mut order: Vec<usize> = (0..rules.len()).collect();
        order.sort_by_key(|at| (reaches[*at].len() + usize::from(!reaches[*at].contains(at)), *at));
        let (mut groups, mut done) = (Vec::new(), BTreeSet::new());
        for at in order {
            let is_cycle =
                |other: &usize| *other == at || reaches[at].contains(other) && reaches[*other].contains(&at);
            if !done.contains(&at) {
                let group: Vec<usize> = (0..rules.len()).filter(is_cycle).collect();
                done.extend(group.iter().copied());
                groups.push(group);
            }
        }
        groups
    }

    #[test]
    fn rules_are_grouped_as_by_reachability() {
        let mut state = 1u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        let mut cycles = 0;
        for _ in 0..300 {
            let (mut text, predicates) = (String::new(), 2 + random(9));
            for _ in 0..=random(14) {
                let head = random(predicates + 1);
                if head < predicates {
                    write!(text, "p{head} ").unwrap();
                }
                let body: Vec<String> = (0..=random(3)).map(|_| format!("p{}", random(predicates))).collect();
                writeln!(text, ":- {}.", body.join(", ")).unwrap();
            }
            let statements = parse(&text).unwrap();
            let rules: Vec<&Statement> = statements.iter().collect();
            let groups = groups_of(&rules);
            assert_eq!(groups, by_reachability(&rules), "{text}");
            cycles += groups.iter().filter(|group| group.len() > 1).count();
        }
        assert!(cycles > 50, "{cycles}");
    }

    /// Each rule depends on all others: 250,000 pairs.
    #[test]
    fn many_rules_of_one_predicate_are_one_group() {
        let statements = parse(&"a :- a.\n".repeat(500)).unwrap();
        assert_eq!(groups(&statements), [(0..500).collect::<Vec<_>>()]);
    }
}
