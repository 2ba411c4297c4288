//! Interned terms: equal terms have equal handles.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::rc::Rc;

use crate::limits::{MAX_PARTS, extra_steps};

/// A term: a number, or a handle into [`Terms`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Value {
    /// `#inf`, before every other term: the maximum of the empty set.
    Least,
    Number(i32),
    Kept(u32),
    /// `#sup`, after every other term: the minimum of the empty set.
    Largest,
}

/// A term that is not a number. The order of the variants is clingo's order of terms.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Shape {
    Constant(String),
    Text(String),
    /// A tuple has no name.
    Function(String, Vec<Value>),
}

/// All interned terms.
#[derive(Default)]
pub(crate) struct Terms {
    shapes: Vec<Rc<Shape>>,
    /// By shape: the number of its parts, itself included.
    parts: Vec<u32>,
    /// By shape: the length of its text, in bytes without escapes.
    lengths: Vec<u32>,
    /// A hash map that is never iterated.
    places: HashMap<Rc<Shape>, u32>,
    /// Computed terms with their arguments that were interned since this was last counted.
    uncounted: usize,
}

/// The length of a name that counts as one more stored argument.
const NAME_BYTES_PER_TUPLE: usize = 128;
/// The length of an instance's text that its tuple includes, and that counts as one more stored tuple.
const INCLUDED_TEXT: usize = 256;
const TEXT_BYTES: usize = 64;

impl Terms {
    /// Interns a shape.
    pub fn keep(&mut self, shape: Shape) -> Value {
        if let Some(place) = self.places.get(&shape) {
            return Value::Kept(*place);
        }
        let place = u32::try_from(self.shapes.len()).expect("the budget ends long before so many terms");
        self.parts.push(self.count_parts(&shape));
        self.lengths.push(u32::try_from(self.measure(&shape)).unwrap_or(u32::MAX));
        let shape = Rc::new(shape);
        self.shapes.push(shape.clone());
        self.places.insert(shape, place);
        Value::Kept(place)
    }

    /// Interns a function of computed terms.
    ///
    /// # Errors
    /// [`Refused::Parts`] if it has too many parts: comparing and printing are recursive.
    pub fn function(&mut self, name: &str, values: Vec<Value>) -> Result<Value, Refused> {
        let (known, size) = (self.shapes.len(), 1 + values.len() + name.len() / NAME_BYTES_PER_TUPLE);
        let shape = Shape::Function(name.to_owned(), values);
        if self.count_parts(&shape) > MAX_PARTS {
            return Err(Refused::Parts);
        }
        let value = self.keep(shape);
        if self.shapes.len() > known {
            self.uncounted += size;
        }
        Ok(value)
    }

    /// What computed terms stored since the last call, in tuples.
    pub fn take_uncounted(&mut self) -> usize {
        std::mem::take(&mut self.uncounted)
    }

    /// What the text of an instance stores beyond its tuple, in tuples: shared terms are written out.
    pub fn stored_text(&self, tuple: &[Value]) -> usize {
        let length: usize = tuple.iter().map(|value| self.length(*value)).sum();
        length.saturating_sub(INCLUDED_TEXT) / TEXT_BYTES
    }

    /// The steps of comparing two values, beyond one.
    pub fn steps_to_compare(&self, a: Value, b: Value) -> u64 {
        let parts = |value: Value| match value {
            Value::Kept(place) => self.parts[place as usize] as usize,
            _ => 1,
        };
        if a == b { 0 } else { extra_steps(parts(a).min(parts(b))) }
    }

    fn length(&self, value: Value) -> usize {
        match value {
            Value::Kept(place) => self.lengths[place as usize] as usize,
            Value::Number(_) | Value::Least | Value::Largest => 8,
        }
    }

    fn measure(&self, shape: &Shape) -> usize {
        match shape {
            Shape::Constant(text) | Shape::Text(text) => text.len() + 2,
            Shape::Function(name, values) => {
                name.len() + 2 + values.iter().map(|value| self.length(*value) + 1).sum::<usize>()
            }
        }
    }

    fn count_parts(&self, shape: &Shape) -> u32 {
        let Shape::Function(_, values) = shape else { return 1 };
        let parts = values.iter().map(|value| match value {
            Value::Kept(place) => self.parts[*place as usize],
            _ => 1,
        });
        parts.fold(1, u32::saturating_add)
    }

    /// Interns a string.
    pub fn text(&mut self, text: &str) -> Value {
        self.keep(Shape::Text(text.to_owned()))
    }

    /// Interns an actor's name in the form that policies use.
    pub fn actor(&mut self, id: &str) -> Value {
        let parts: Vec<&str> = id.split('/').collect();
        if parts.len() != 3 {
            return self.text(id);
        }
        let parts = parts.into_iter().map(|part| self.text(part)).collect();
        self.keep(Shape::Function("a".to_owned(), parts))
    }

    /// The value of a string, if it is interned.
    pub fn find_text(&self, text: &str) -> Option<Value> {
        self.places.get(&Shape::Text(text.to_owned())).map(|place| Value::Kept(*place))
    }

    /// The value of an actor's name, if it is interned.
    pub fn find_actor(&self, id: &str) -> Option<Value> {
        let parts: Vec<&str> = id.split('/').collect();
        if parts.len() != 3 {
            return self.find_text(id);
        }
        let parts: Option<Vec<Value>> = parts.into_iter().map(|part| self.find_text(part)).collect();
        self.places.get(&Shape::Function("a".to_owned(), parts?)).map(|place| Value::Kept(*place))
    }

    /// The shape of a value; `None` for a number.
    pub fn shape(&self, value: Value) -> Option<&Shape> {
        match value {
            Value::Kept(place) => self.shapes.get(place as usize).map(Rc::as_ref),
            Value::Least | Value::Number(_) | Value::Largest => None,
        }
    }

    /// clingo's order: `#inf`, numbers, constants, strings, functions by number of terms, name, and terms, `#sup`.
    pub fn compare(&self, a: Value, b: Value) -> Ordering {
        let rank = |value: Value, shape: Option<&Shape>| match (value, shape) {
            (Value::Least, _) => 0,
            (Value::Number(_), _) => 1,
            (_, Some(Shape::Constant(_))) => 2,
            (_, Some(Shape::Text(_))) => 3,
            (_, Some(Shape::Function(..))) => 4,
            (Value::Kept(_) | Value::Largest, None) => 5,
        };
        let (first, second) = (self.shape(a), self.shape(b));
        if a == b {
            return Ordering::Equal;
        }
        rank(a, first).cmp(&rank(b, second)).then_with(|| match (first, second) {
            (Some(Shape::Constant(one)), Some(Shape::Constant(other)))
            | (Some(Shape::Text(one)), Some(Shape::Text(other))) => one.cmp(other),
            (Some(Shape::Function(name, terms)), Some(Shape::Function(other, others))) => {
                let pairs = terms.iter().zip(others);
                let by_terms =
                    || pairs.map(|(one, other)| self.compare(*one, *other)).find(|order| order.is_ne());
                let by_name = terms.len().cmp(&others.len()).then_with(|| name.cmp(other));
                by_name.then_with(|| by_terms().unwrap_or(Ordering::Equal))
            }
            _ => a.cmp(&b),
        })
    }

    /// In clingo's syntax.
    pub fn show(&self, value: Value) -> String {
        let list = |terms: &[Value]| terms.iter().map(|term| self.show(*term)).collect::<Vec<_>>().join(",");
        match (value, self.shape(value)) {
            (Value::Least, _) => "#inf".to_owned(),
            (Value::Number(number), _) => number.to_string(),
            (Value::Largest, _) => "#sup".to_owned(),
            (_, Some(Shape::Constant(name))) => name.clone(),
            (_, Some(Shape::Text(text))) => crate::symbols::string(text),
            (_, Some(Shape::Function(name, terms))) => format!("{name}({})", list(terms)),
            (_, None) => String::new(),
        }
    }
}

/// Computations that clingo accepts and policies refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// A number that exceeds 32 bits: clingo would wrap around.
    Overflow,
    /// `-` before a constant, a function or a tuple, which makes a new term in clingo.
    Negation,
    /// A term of too many parts.
    Parts,
}

impl Refused {
    /// The message for the statement that computes it.
    pub fn says(self) -> &'static str {
        match self {
            Self::Overflow => "computes a number that 32 bits do not hold; use a coarser unit",
            Self::Parts => "computes a term of more than 1,000 parts; nest fewer terms inside each other",
            Self::Negation => "puts `-` before a term that is no number here; only numbers have an opposite",
        }
    }
}

/// Computes as clingo does; `None` if the operation is undefined, which drops the instance.
pub(crate) fn compute(operator: &str, a: Value, b: Value) -> Result<Option<Value>, Refused> {
    let (Value::Number(a), Value::Number(b)) = (a, b) else { return Ok(None) };
    let (a, b) = (i64::from(a), i64::from(b));
    let result = match operator {
        "+" => a + b,
        "-" => a - b,
        "*" => a * b,
        "/" if b != 0 => a / b,
        "\\" if b != 0 => a % b,
        _ => return Ok(None),
    };
    i32::try_from(result).map(|number| Some(Value::Number(number))).map_err(|_| Refused::Overflow)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `asp` compares both with clingo's, through whole programs.
    #[test]
    fn division_truncates_and_overflow_is_refused() {
        let computed = |a, operator, b| compute(operator, Value::Number(a), Value::Number(b));
        let number = |number| Ok(Some(Value::Number(number)));
        assert_eq!(computed(-7, "/", 2), number(-3));
        assert_eq!(computed(-7, "\\", 2), number(-1));
        assert_eq!(computed(7, "\\", -2), number(1));
        assert_eq!(computed(7, "/", 0), Ok(None));
        assert_eq!(computed(7, "\\", 0), Ok(None));
        assert_eq!(computed(1 << 20, "*", 1 << 20), Err(Refused::Overflow));
        let mut terms = Terms::default();
        let text = terms.text("b");
        for other in [text, Value::Least, Value::Largest] {
            assert_eq!(compute("+", other, Value::Number(1)), Ok(None));
        }
    }

    #[test]
    fn terms_are_shown_as_clingo_writes_them() {
        let mut terms = Terms::default();
        let actor = terms.actor("shop/app/a\"1");
        assert_eq!(terms.show(actor), r#"a("shop","app","a\"1")"#);
        let pair = vec![Value::Number(-1), terms.keep(Shape::Constant("c".to_owned()))];
        let pair = terms.keep(Shape::Function(String::new(), pair));
        assert_eq!(terms.show(pair), "(-1,c)");
        assert_eq!([Value::Least, Value::Largest].map(|end| terms.show(end)), ["#inf", "#sup"]);
    }
}
