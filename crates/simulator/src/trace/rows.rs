//! Rows, and a whole trace in memory.

/// The first line of a trace file.
pub const HEADER: &str = "src_ts,src_id,dst_ts,dst_id";

/// A row: at logical time `at`, actor `from` runs a task that sends one for logical time `time` to actor `to`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// Logical time of the task.
    pub at: f64,
    /// The actor that executes it.
    pub from: u32,
    /// Logical time of the task sent.
    pub time: f64,
    /// The receiving actor.
    pub to: u32,
}

/// A row without the sending actor: 24 bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sent {
    /// Logical time of the sending task.
    pub at: f64,
    /// Logical time of the task sent.
    pub time: f64,
    /// The receiving actor.
    pub to: u32,
}

/// A whole trace, by actor; each actor's rows ascend by time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    rows: Vec<Vec<Sent>>,
}

impl Trace {
    /// Groups rows by actor; rows of equal time keep their order.
    ///
    /// # Errors
    /// The first row that precedes an earlier row of its actor, arrives before it is sent, has a negative or non-finite
    /// time, or names an actor that sends no row.
    pub fn collect(rows: impl IntoIterator<Item = Row>) -> Result<Self, String> {
        let mut builder = Builder::default();
        for (index, row) in rows.into_iter().enumerate() {
            builder.add(row, index + 1).map_err(|problem| format!("row {}: {problem}", index + 1))?;
        }
        builder.finish().map_err(|(row, problem)| format!("row {row}: {problem}"))
    }

    /// Number of actors.
    pub fn actors(&self) -> usize {
        self.rows.len()
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows.iter().map(Vec::len).sum()
    }

    /// The rows of one actor, times ascending.
    pub fn of(&self, actor: usize) -> &[Sent] {
        &self.rows[actor]
    }
}

/// Upper limit on actor numbers: memory is allocated by actor, and a typing error must not exhaust it.
const LARGEST_ACTOR: u32 = 999_999;

/// Collects rows and validates each against the previous ones.
#[derive(Debug, Default)]
pub(super) struct Builder {
    rows: Vec<Vec<Sent>>,
    /// By actor: the line that first names it.
    named: Vec<usize>,
}

impl Builder {
    pub(super) fn add(&mut self, row: Row, line: usize) -> Result<(), String> {
        for (what, time) in [("src_ts", row.at), ("dst_ts", row.time)] {
            if !time.is_finite() || time < 0.0 {
                return Err(format!("{what} is {time}; logical times are numbers of at least 0"));
            }
        }
        if row.time < row.at {
            return Err(format!(
                "dst_ts {} is before src_ts {}; a task is sent into its future",
                row.time, row.at
            ));
        }
        for actor in [row.from, row.to] {
            if actor > LARGEST_ACTOR {
                return Err(format!("actor {actor}; actors are numbered from 0 without gaps"));
            }
            let needed = actor as usize + 1;
            if self.rows.len() < needed {
                self.rows.resize(needed, Vec::new());
                self.named.resize(needed, 0);
            }
            if self.named[actor as usize] == 0 {
                self.named[actor as usize] = line;
            }
        }
        let rows = &mut self.rows[row.from as usize];
        if let Some(last) = rows.last()
            && row.at < last.at
        {
            return Err(format!(
                "src_ts {} of actor {} follows {}; sort the rows of each actor by src_ts",
                row.at, row.from, last.at
            ));
        }
        rows.push(Sent { at: row.at, time: row.time, to: row.to });
        Ok(())
    }

    /// The trace, or the line that names an actor without tasks, and the remedy.
    pub(super) fn finish(mut self) -> Result<Trace, (usize, String)> {
        if self.rows.is_empty() {
            return Err((1, format!("the trace is empty; write rows below the header {HEADER}")));
        }
        // An actor named by a row is reported as a typing error there, not as a gap in the numbering.
        let mut idle: Vec<usize> =
            (0..self.rows.len()).filter(|&actor| self.rows[actor].is_empty()).collect();
        idle.sort_by_key(|&actor| self.named[actor] == 0);
        if let Some(&actor) = idle.first() {
            let line = self.named[actor].max(1);
            let problem = if self.named[actor] == 0 {
                format!("actor {actor} is missing; actors are numbered from 0 without gaps")
            } else {
                format!(
                    "actor {actor} is unknown: it is the src_id of no row; give it rows of its own or correct dst_id"
                )
            };
            return Err((line, problem));
        }
        for rows in &mut self.rows {
            rows.shrink_to_fit();
        }
        Ok(Trace { rows: self.rows })
    }
}

#[cfg(test)]
mod tests {
    use super::{Row, Trace};

    type Plain = (f64, u32, f64, u32);

    fn collect(rows: &[Plain]) -> Result<Trace, String> {
        Trace::collect(rows.iter().map(|&(at, from, time, to)| Row { at, from, time, to }))
    }

    #[test]
    fn rows_are_grouped_by_actor_in_order() {
        let trace =
            collect(&[(1.0, 0, 2.0, 0), (1.0, 1, 2.0, 1), (1.0, 0, 1.1, 1), (2.0, 0, 3.0, 0)]).unwrap();
        assert_eq!((trace.actors(), trace.rows()), (2, 4));
        assert_eq!(trace.of(0).iter().map(|row| row.time).collect::<Vec<_>>(), [2.0, 1.1, 3.0]);
    }

    #[test]
    fn invalid_rows_are_reported_with_their_number() {
        let cases: [(&[Plain], &str); 6] = [
            (&[], "row 1: the trace is empty; write rows below the header src_ts,src_id,dst_ts,dst_id"),
            (
                &[(2.0, 0, 3.0, 0), (1.0, 0, 2.0, 0)],
                "row 2: src_ts 1 of actor 0 follows 2; sort the rows of each actor by src_ts",
            ),
            (&[(1.0, 0, 0.5, 0)], "row 1: dst_ts 0.5 is before src_ts 1; a task is sent into its future"),
            (&[(-1.0, 0, 0.5, 0)], "row 1: src_ts is -1; logical times are numbers of at least 0"),
            (
                &[(1.0, 0, 2.0, 0), (2.0, 0, 3.0, 1)],
                "row 2: actor 1 is unknown: it is the src_id of no row; give it rows of its own or correct dst_id",
            ),
            (&[(1.0, 2, 2.0, 2)], "row 1: actor 0 is missing; actors are numbered from 0 without gaps"),
        ];
        for (rows, expected) in cases {
            assert_eq!(collect(rows).unwrap_err(), expected);
        }
    }
}
