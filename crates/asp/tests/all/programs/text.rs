//! Random policies: texts made of the productions of the language.

use std::collections::BTreeSet;

use fastrand::Rng;

/// A program under construction.
pub struct Text {
    pub rng: Rng,
    pub lines: Vec<String>,
    /// The productions that it uses.
    pub used: BTreeSet<&'static str>,
    /// Predicates over an actor that are derived from facts, and from placements.
    of_facts: Vec<String>,
    of_places: Vec<String>,
}

impl Text {
    fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.rng.usize(..of.len())].clone()
    }

    fn chance(&mut self, percent: u8) -> bool {
        self.rng.u8(..100) < percent
    }

    /// The text of a production, which is recorded.
    fn say(&mut self, production: &'static str, words: impl Into<String>) -> String {
        self.used.insert(production);
        words.into()
    }

    /// A kind, most often the one that every snapshot has.
    fn kind(&mut self) -> &'static str {
        if self.chance(25) { "gpu" } else { "cpu" }
    }

    /// A literal over an actor that follows from facts.
    fn fact_of(&mut self, actor: &str) -> String {
        let (group, number) = (self.one(&["g0", "g1", "g2"]), self.rng.u8(..5));
        let kind = self.kind();
        match self.rng.u8(..14) {
            0 => self.say("group", format!("group({actor},\"{group}\")")),
            1 => self.say("actor_label", format!("actor_label({actor},\"noise\",\"high\")")),
            2 => self.say("fixed", format!("fixed({actor})")),
            3 => self.say("requires", format!("requires({actor},\"{kind}\",\"memory\",_)")),
            4 => self.say("runs_on_kind", format!("runs_on_kind({actor},\"{kind}\")")),
            5 => self.say("a function", format!("{actor} = a(\"s\",App,\"a-{number}\")")),
            6 => self.say("app", format!("app({actor},\"s/p\")")),
            7 if !self.of_facts.is_empty() => {
                let name = self.one(&self.of_facts.clone());
                self.say("a user predicate", format!("{name}({actor})"))
            }
            8 => self.say("current", format!("current({actor},_)")),
            9 => self.say("move_cost", format!("move_cost({actor},_)")),
            10 => self.say("mutual_annoyance", format!("mutual_annoyance({actor},_,_)")),
            11 => self.say("interferes", format!("interferes(_,{actor},_)")),
            12 => self.say("node_requires", format!("node_requires({actor},\"{kind}\",\"cores\",_)")),
            _ => self.say("actor", format!("actor({actor})")),
        }
    }

    /// A comparison with `number` on one side.
    fn comparison(&mut self, number: &str) -> String {
        let operator = self.one(&["=", "!=", "<", "<=", ">", ">="]);
        let bound = self.rng.u8(1..5);
        let not = if self.chance(25) { self.say("not a comparison", "not ") } else { String::new() };
        let (production, term) = match self.rng.u8(..8) {
            0 => ("+", format!("{number}+1")),
            1 => ("-", format!("{number}-1")),
            2 => ("*", format!("{number}*2")),
            3 => ("/", format!("{number}/2")),
            4 => ("\\", format!("{number}\\2")),
            5 => ("absolute", format!("|{number}-3|")),
            6 => ("negative", format!("-{number}+5")),
            _ => ("a comparison", number.to_owned()),
        };
        self.say(production, format!("{not}{term} {operator} {bound}"))
    }

    /// A set of actors on a unit, or anywhere, against a bound.
    fn set(&mut self, unit: &str, over_facts: bool) -> String {
        let unit = if self.chance(30) { "_" } else { unit };
        let place = if over_facts { "actor(X)".to_owned() } else { format!("run_on(X,{unit})") };
        let more = if self.chance(50) { format!(", {}", self.fact_of("X")) } else { String::new() };
        let (function, elements) = match self.rng.u8(..6) {
            0 if over_facts => ("#sum", format!("W,X : {place}, work(X,\"cpu\",W){more}")),
            0 => {
                let there = if unit == "_" { "Z" } else { unit };
                let elements = format!("W,X : run_on(X,{there}), workload(X,{there},W){more}");
                ("#sum", self.say("workload", elements))
            }
            4 => ("#sum", format!("W,X : {place}, work(X,\"cpu\",W){more}")),
            1 => ("#sum+", format!("W-3,X : {place}, work(X,\"cpu\",W){more}")),
            2 => ("#min", format!("W : {place}, work(X,\"cpu\",W){more}")),
            3 => ("#max", format!("W : {place}, work(X,\"cpu\",W){more}")),
            _ => ("#count", format!("X : {place}{more}")),
        };
        let elements = if self.chance(15) {
            self.say("several elements", format!("{elements}; 1,s : {place}, group(X,\"g0\")"))
        } else {
            elements
        };
        let not = if self.chance(10) { self.say("not an aggregate", "not ") } else { String::new() };
        let (low, high) = (self.rng.u8(1..3), self.rng.u8(2..6));
        let operator = self.one(&["<", "<=", ">", ">=", "=", "!="]);
        let set = format!("{function} {{ {elements} }}");
        let set = match self.rng.u8(..3) {
            0 => self.say("a left guard", format!("{low} {operator} {set}")),
            1 => self.say("two guards", format!("{low} <= {set} <= {high}")),
            _ => self.say("a right guard", format!("{set} {operator} {low}")),
        };
        self.say(function, format!("{not}{set}"))
    }

    /// A body over placements that binds A and U, and the other variables that it binds.
    fn body(&mut self) -> String {
        let mut parts = vec!["run_on(A,U)".to_owned()];
        for _ in 0..self.rng.u8(..5) {
            let part = match self.rng.u8(..21) {
                0 => {
                    let peer = self.say("two actors", "run_on(B,V), A < B");
                    let near = self.one(&["U = V", "cu_node(U,N), cu_node(V,N)", "U != V"]);
                    format!("{peer}, {near}")
                }
                1 => self.say("cu_node", "cu_node(U,\"n0\")"),
                2 => self.say("cu_zone", "cu_zone(U,\"z0\")"),
                3 => {
                    let compared = self.comparison("W");
                    self.say("work", format!("work(A,\"cpu\",W), {compared}"))
                }
                4 => {
                    let compared = self.comparison("C");
                    self.say("cu_capacity", format!("cu_capacity(U,C), {compared}"))
                }
                5 => {
                    let number = self.rng.u8(..3);
                    self.say("not", format!("not run_on(a(\"s\",\"p\",\"a-{number}\"),U)"))
                }
                6 => {
                    let of = self.fact_of("A");
                    if of.contains('=') { of } else { self.say("not not", format!("not not {of}")) }
                }
                7 => {
                    let of = self.fact_of("X");
                    let inner = if of.contains('=') { "group(X,\"g1\")".to_owned() } else { of };
                    let not = if self.chance(50) { "not " } else { "" };
                    self.say("a conditional literal", format!("{not}run_on(X,U) : {inner}"))
                }
                8 => {
                    let number = self.rng.u8(..4);
                    self.say("unplaced", format!("unplaced(a(\"s\",\"p\",\"a-{number}\"))"))
                }
                9 if !self.of_places.is_empty() => {
                    let (name, not) = (self.one(&self.of_places.clone()), self.one(&["", "not "]));
                    self.say("a derived predicate on placement", format!("{not}{name}(A)"))
                }
                10 => self.say("node_label", "cu_node(U,M), node_label(M,\"region\",\"eu\")"),
                11 => self.say("msg_exch_rate", "msg_exch_rate(A,_,R), R > 1"),
                12 => self.say("runnable_on", "runnable_on(A,\"u1\")"),
                13 => {
                    let kind = self.kind();
                    self.say("cu_kind", format!("cu_kind(U,\"{kind}\")"))
                }
                14 => self.say("cu_slots", "cu_slots(U,S), S > 1"),
                15 => self.say("cu_numa", "cu_numa(U,\"m0\")"),
                16 => {
                    let not = self.one(&["", "not "]);
                    self.say("current placement", format!("{not}current(A,U)"))
                }
                17 => {
                    let compared = self.comparison("L");
                    self.say("workload at the unit", format!("workload(A,U,L), {compared}"))
                }
                18 => self.say("node_provides", "cu_node(U,H), node_provides(H,\"cores\",J), J > 4"),
                19 => self.say("cu_provides", "cu_provides(U,\"memory\",E), E > 8"),
                _ => self.fact_of("A"),
            };
            parts.push(part);
        }
        if self.chance(40) {
            let set = self.set("U", false);
            parts.push(set);
        }
        parts.dedup();
        parts.join("; ")
    }

    /// Rules that other rules depend on.
    fn premises(&mut self) {
        if self.chance(40) {
            let of = self.fact_of("A");
            let bound = if of.contains('=') { "actor(A), " } else { "" };
            let line = self.say("a rule", format!("q(A) :- {bound}{of}."));
            self.lines.push(line);
            self.of_facts.push("q".to_owned());
        }
        if self.chance(25) {
            let lines = self.say(
                "recursion",
                "near(A,B) :- msg_exch_rate(A,B,_).\nnear(A,C) :- near(A,B), msg_exch_rate(B,C,_).\n\
                 t(A) :- near(A,_), not near(_,A).",
            );
            self.lines.push(lines);
            self.of_facts.push("t".to_owned());
        }
        if self.chance(25) {
            let line = self.say("an interval", "n(1..3).\nm(A) :- work(A,\"cpu\",W), n(W).");
            self.lines.push(line);
            self.of_facts.push("m".to_owned());
        }
        if self.chance(25) {
            let (name, set) = ("k", self.set("_", true));
            let line = self.say("an aggregate of facts", format!("{name}(A) :- actor(A), {set}."));
            self.lines.push(line);
            self.of_facts.push(name.to_owned());
        }
        if self.chance(25) {
            let line = self.say(
                "an aggregate value",
                "c(G,C) :- group(_,G), C = #count { X : group(X,G) }.\nb(A) :- group(A,G), c(G,C), C > 1.",
            );
            self.lines.push(line);
            self.of_facts.push("b".to_owned());
        }
        if self.chance(30) {
            let line =
                self.say("a tuple", "at((A,N)) :- run_on(A,U), cu_node(U,N).\nx(A) :- at((A,\"n0\")).");
            self.lines.push(line);
            self.of_places.push("x".to_owned());
        }
        if self.chance(40) {
            let body = self.body();
            let line = self.say("a rule on placement", format!("y(A) :- {body}."));
            self.lines.push(line);
            self.of_places.push("y".to_owned());
        }
    }

    /// Rules that other rules depend on, over partial attributes.
    fn values(&mut self) {
        if self.chance(25) {
            let (function, operator, kind) =
                (self.one(&["#min", "#max"]), self.one(&["<", ">="]), self.kind());
            let lines = format!(
                "e(G,X) :- group(_,G), X = {function} {{ W : group(Y,G), work(Y,\"{kind}\",W) }}.\n\
                 h(A) :- group(A,G), e(G,X), X {operator} 3."
            );
            let lines = self.say("min or max of a possibly empty set", lines);
            self.lines.push(lines);
            self.of_facts.push("h".to_owned());
        }
        if self.chance(25) {
            let (not, term) = (self.one(&["not ", "not not "]), self.one(&["X", "X+1"]));
            let sets = format!("{not}{term} = #count {{ Y : group(Y,G) }}, X = #count {{ Y : fixed(Y) }}");
            let line = self.say("a negated aggregate value", format!("d(A) :- group(A,G), {sets}."));
            self.lines.push(line);
            self.of_facts.push("d".to_owned());
        }
        if self.chance(25) {
            let line = "i(A) :- group(A,G), X-1 = #count { Y : group(Y,G) }, X = #count { U : cu(U) }.";
            let line = self.say("a sum as an aggregate value", line);
            self.lines.push(line);
            self.of_facts.push("i".to_owned());
        }
        if self.chance(25) {
            let lines = "j(f(W*2,W)) :- work(_,\"cpu\",W).\nl(A) :- X > 2, j(f(X*2,X)), work(A,\"cpu\",X).";
            let lines = self.say("a term bound by a neighbouring literal", lines);
            self.lines.push(lines);
            self.of_facts.push("l".to_owned());
        }
        if self.chance(25) {
            let capacity = self.one(&["not cu_capacity(_,4/(W-2))", "not not cu_capacity(_,4/(W-2))"]);
            let line = self.say("a division by 0", format!("z(A) :- work(A,\"cpu\",W), {capacity}."));
            self.lines.push(line);
            self.of_facts.push("z".to_owned());
        }
    }

    /// Conclusions from facts that restrict units.
    fn derived(&mut self) {
        let of = self.fact_of("A");
        let who = if of.contains('=') { format!("actor(A), {of}") } else { of };
        let unit = self.one(&["u0", "u1", "u2", "u3"]);
        let (level, kept) = (self.one(&["unit", "numa", "node", "zone"]), self.rng.u8(1..5));
        let pair = "group(A,\"g0\"), group(B,\"g0\"), A < B";
        let line = match self.rng.u8(..6) {
            0 => self.say("forbid", format!("forbid(A,\"{unit}\") :- {who}.")),
            1 => self.say("pin", format!("pin(A,\"{unit}\") :- {who}.")),
            2 => self.say("prefer", format!("prefer(A,\"{unit}\",4) :- {who}.")),
            3 => self.say("apart", format!("apart(A,B,{level}) :- {pair}.")),
            4 => self.say("together", format!("together(A,B,{level}) :- {pair}.")),
            _ => self.say("reserve", format!("reserve(\"{unit}\",\"memory\",{kept}).")),
        };
        self.lines.push(line);
    }

    /// The program of a seed.
    pub fn random(seed: u64) -> Self {
        let mut text = Self {
            rng: Rng::with_seed(seed),
            lines: Vec::new(),
            used: BTreeSet::new(),
            of_facts: Vec::new(),
            of_places: Vec::new(),
        };
        text.values();
        text.premises();
        if text.chance(60) {
            text.derived();
        }
        for _ in 0..text.rng.u8(1..3) {
            let body = if text.chance(20) {
                let (set, of) = (text.set("\"u0\"", false), text.say("cu", "cu(U)"));
                format!("{of}, {set}")
            } else {
                text.body()
            };
            let line = text.say("a constraint", format!(":- {body}."));
            text.lines.push(line);
        }
        for number in 0..text.rng.u8(..4) {
            let body = text.body();
            // A tuple of several of them counts once.
            let (own, weight) = if text.chance(50) {
                (text.say("a shared weak-constraint tuple", ""), text.rng.u8(1..3))
            } else {
                (format!("w{number},"), text.rng.u8(1..9))
            };
            let line = if text.chance(40) {
                text.say("a variable weight", format!(":~ {body}; work(A,\"cpu\",P). [P,{own}A]"))
            } else {
                text.say("a weak constraint", format!(":~ {body}. [{weight},{own}A]"))
            };
            text.lines.push(line);
        }
        text
    }
}
