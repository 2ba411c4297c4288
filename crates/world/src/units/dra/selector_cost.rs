//! Upper bound on the cost of a CEL expression over a device.
//!
//! The API server refuses an expression of a `DeviceClass` by its estimated cost; those of pools are never compiled there. A step
//! is the visit of a node of the expression, of an element of a value, or of some characters.

use kube_cel::cel::IdedExpr;
use kube_cel::cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, LiteralValue, operators};

use crate::units::dra::selector_functions::{DOMAIN, HELD, PATTERN, RELEASE, TEXT};

/// Maximum number of steps of an expression.
const MAX_STEPS: u64 = 100_000;
/// Maximum nesting: evaluation is recursive.
const MAX_DEPTH: usize = 64;
/// Number of attributes and capacities of a device, at most.
const ATTRIBUTES: u64 = 32;
/// Number of characters that count as one element.
const CHARACTERS: u64 = 32;
/// Size of an attribute: Kubernetes limits strings to 64 characters.
const ATTRIBUTE: u64 = 3;
/// Steps of compiling a regular expression, at each evaluation.
const REGEX: u64 = 5_000;
/// Size of a number as text.
const NUMBER: u64 = 16;
/// Refused anyway.
const UNBOUNDED: u64 = u64::MAX;

/// Refuses expressions that cannot be evaluated, or not within the limits.
pub(crate) fn check(expression: &IdedExpr) -> Result<(), String> {
    let bound = Estimate { scope: Vec::new(), depth: 0 }.of(expression)?;
    if bound.steps > MAX_STEPS {
        return Err(format!(
            "is too expensive: it may take more than {MAX_STEPS} steps for one device; use smaller lists and fewer nested macros"
        ));
    }
    Ok(())
}

/// Upper bounds of evaluating an expression.
#[derive(Clone, Copy)]
struct Bound {
    steps: u64,
    /// Elements of the value, each with its characters.
    size: u64,
}

/// Estimates subexpressions.
struct Estimate<'a> {
    /// Variables of macros and the sizes of their values, the innermost last.
    scope: Vec<(&'a str, u64)>,
    depth: usize,
}

impl<'a> Estimate<'a> {
    fn of(&mut self, expression: &'a IdedExpr) -> Result<Bound, String> {
        if self.depth == MAX_DEPTH {
            return Err(format!("is nested more than {MAX_DEPTH} levels deep; divide it"));
        }
        self.depth += 1;
        let bound = self.of_kind(&expression.expr);
        self.depth -= 1;
        bound
    }

    fn of_kind(&mut self, expression: &'a Expr) -> Result<Bound, String> {
        match expression {
            Expr::Literal(literal) => {
                let size = match literal {
                    LiteralValue::String(text) => characters(text.inner().len()),
                    LiteralValue::Bytes(bytes) => characters(bytes.inner().len()),
                    _ => 1,
                };
                Ok(Bound { steps: size, size })
            }
            Expr::Ident(name) => {
                let of_device = ATTRIBUTES * 2 * ATTRIBUTE;
                let size = self.variable(name).unwrap_or(if name == "device" { of_device } else { 1 });
                Ok(Bound { steps: size, size })
            }
            Expr::Select(select) => {
                let of = self.of(&select.operand)?;
                let size = if select.test { 1 } else { self.member_size(expression, of.size) };
                Ok(Bound { steps: of.steps.saturating_add(size), size })
            }
            Expr::List(list) => self.total(list.elements.iter()),
            Expr::Map(map) => {
                let mut all = Vec::new();
                for entry in &map.entries {
                    let EntryExpr::MapEntry(entry) = &entry.expr else { return Err(unsupported("a struct")) };
                    all.extend([&entry.key, &entry.value]);
                }
                self.total(all.into_iter())
            }
            Expr::Call(call) => self.call(expression, call),
            Expr::Comprehension(macro_) => self.comprehension(macro_),
            Expr::Struct(_) => Err(unsupported("a struct")),
            Expr::Unspecified => Err(unsupported("an empty expression")),
        }
    }

    fn variable(&self, name: &str) -> Option<u64> {
        self.scope.iter().rev().find(|(known, _)| *known == name).map(|(_, size)| *size)
    }

    /// Size of a member of a value of this size.
    fn member_size(&self, member: &Expr, of: u64) -> u64 {
        if self.device_level(member).is_some_and(|level| level >= 3) { ATTRIBUTE } else { of }
    }

    /// How many members deep an expression is below the device: attributes of a domain are on the third level.
    fn device_level(&self, expression: &Expr) -> Option<usize> {
        match expression {
            Expr::Ident(name) => (name == "device" && self.variable(name).is_none()).then_some(0),
            Expr::Select(select) => Some(self.device_level(&select.operand.expr)? + 1),
            Expr::Call(call) if [operators::INDEX, DOMAIN].contains(&call.func_name.as_str()) => {
                Some(self.device_level(&call.args.first()?.expr)? + 1)
            }
            _ => None,
        }
    }

    /// A value made of these.
    fn total(&mut self, parts: impl Iterator<Item = &'a IdedExpr>) -> Result<Bound, String> {
        let mut total = Bound { steps: 1, size: 1 };
        for part in parts {
            let part = self.of(part)?;
            total.steps = total.steps.saturating_add(part.steps);
            total.size = total.size.saturating_add(part.size);
        }
        total.steps = total.steps.saturating_add(total.size);
        Ok(total)
    }

    fn call(&mut self, expression: &'a Expr, call: &'a CallExpr) -> Result<Bound, String> {
        let parts: Vec<&IdedExpr> = call.target.iter().map(AsRef::as_ref).chain(&call.args).collect();
        let parts = parts.into_iter().map(|part| self.of(part)).collect::<Result<Vec<Bound>, String>>()?;
        let computed = parts.iter().map(|part| part.steps).fold(1, u64::saturating_add);
        let sum = parts.iter().map(|part| part.size).fold(0, u64::saturating_add);
        // Each character of one with each of another.
        let of_part = |part: &Bound| part.size.saturating_mul(CHARACTERS).saturating_add(1);
        let product = parts.iter().map(of_part).fold(1, u64::saturating_mul) / CHARACTERS;
        let first = parts.first().map_or(1, |part| part.size);
        let (steps, size) = match call.func_name.as_str() {
            operators::CONDITIONAL => (1, parts.iter().skip(1).map(|part| part.size).max().unwrap_or(1)),
            operators::INDEX | operators::OPT_INDEX | operators::OPT_SELECT | DOMAIN => {
                let size = self.member_size(expression, first);
                (size, size)
            }
            operators::ADD => (sum, sum),
            HELD | RELEASE | TEXT => (sum, sum.saturating_add(NUMBER)),
            PATTERN => (sum, sum.saturating_mul(CHARACTERS)),
            // The other operators give a number or a truth value.
            operator if operator.contains(['_', '@', '!']) => (sum, 1),
            "startsWith" | "endsWith" | "size" | "isGreaterThan" | "isLessThan" | "compareTo" => (sum, 1),
            "matches" | "find" => (sum.saturating_add(REGEX), sum),
            // A part may be one character.
            "findAll" | "split" => {
                let parts = sum.saturating_mul(CHARACTERS);
                (parts.saturating_add(REGEX), parts)
            }
            "contains" | "intersects" | "equivalent" if is_of_sets(call) => {
                (parts.iter().map(|part| part.size).fold(1, u64::saturating_mul), 1)
            }
            "contains" | "indexOf" | "lastIndexOf" | "equivalent" | "intersects" | "containsIP" => {
                (product, 1)
            }
            "distinct" | "sort" => (first.saturating_mul(first), first),
            "replace" if is_shrinking(call) => (sum, first),
            "replace" | "join" => (product, product),
            "format" => {
                let is_plain = call.target.as_ref().is_some_and(|text| is_plain_format(&text.expr));
                let size = if is_plain { product.saturating_add(NUMBER) } else { UNBOUNDED };
                (size, size)
            }
            "range" => {
                let size = call.args.first().map_or(UNBOUNDED, |number| whole(&number.expr));
                (size, size)
            }
            "string" => (sum, sum.saturating_add(NUMBER)),
            _ => (sum, sum.saturating_mul(2)),
        };
        Ok(Bound { steps: computed.saturating_add(steps), size: size.max(1) })
    }

    /// A macro such as `all`, `exists`, `map` or `filter`. A list grows by at most the same amount in each iteration.
    fn comprehension(&mut self, of: &'a ComprehensionExpr) -> Result<Bound, String> {
        let (range, initial) = (self.of(&of.iter_range)?, self.of(&of.accu_init)?);
        let (iterations, element) = match &of.iter_range.expr {
            Expr::List(list) => (length(list.elements.len()), range.size),
            of_device if self.device_level(of_device).is_some() => (ATTRIBUTES, ATTRIBUTE),
            _ => (range.size, range.size),
        };
        let known = self.scope.len();
        self.scope.push((&of.accu_var, 0));
        let variables = [Some(&of.iter_var), of.iter_var2.as_ref()];
        self.scope.extend(variables.into_iter().flatten().map(|name| (name.as_str(), element)));
        let (condition, step) = (self.of(&of.loop_cond), self.of(&of.loop_step));
        let (condition, step) = (condition?, step?);
        let is_growing = matches!(
            &of.loop_step.expr,
            Expr::Call(call) if [operators::ADD, operators::CONDITIONAL].contains(&call.func_name.as_str())
        );
        let times = if is_growing { iterations } else { 1 };
        let grown = initial.size.saturating_add(times.saturating_mul(step.size));
        // The step reads the result so far at most twice and copies it twice; the element is copied.
        let once = condition
            .steps
            .saturating_add(step.steps)
            .saturating_add(grown.saturating_mul(4))
            .saturating_add(element);
        self.scope.truncate(known);
        self.scope.push((&of.accu_var, grown));
        let result = self.of(&of.result);
        self.scope.truncate(known);
        let result = result?;
        let outside = range.steps.saturating_add(initial.steps).saturating_add(result.steps);
        Ok(Bound { steps: iterations.saturating_mul(once).saturating_add(outside), size: result.size })
    }
}

fn unsupported(what: &str) -> String {
    format!("has {what}, which is not supported; compare attributes with numbers, strings and lists")
}

fn length(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(UNBOUNDED)
}

fn characters(count: usize) -> u64 {
    1 + length(count) / CHARACTERS
}

/// Compares each element of a list with each of another.
fn is_of_sets(call: &CallExpr) -> bool {
    call.target.as_ref().is_some_and(|target| matches!(&target.expr, Expr::Ident(name) if name == "sets"))
}

/// Replaces a literal text by one that is not longer.
fn is_shrinking(replace: &CallExpr) -> bool {
    let text = |at: usize| match &replace.args.get(at)?.expr {
        Expr::Literal(LiteralValue::String(text)) => Some(text.inner().len()),
        _ => None,
    };
    text(0).zip(text(1)).is_some_and(|(old, new)| old > 0 && new <= old)
}

/// A literal text without a precision, which may ask for any number of digits.
fn is_plain_format(text: &Expr) -> bool {
    matches!(text, Expr::Literal(LiteralValue::String(text)) if !text.inner().contains("%."))
}

/// A literal number that is not negative.
fn whole(number: &Expr) -> u64 {
    match number {
        Expr::Literal(LiteralValue::Int(number)) => u64::try_from(*number.inner()).unwrap_or(0),
        _ => UNBOUNDED,
    }
}

#[cfg(test)]
mod tests {
    use crate::units::dra::selectors::DeviceSelector;

    /// `x` in each of these macros over ten elements, the one inside the other.
    fn nested(depth: usize) -> String {
        let list = "[0,0,0,0,0,0,0,0,0,0]";
        (0..depth).fold("true".to_owned(), |inner, at| format!("{list}.all(a{at}, {inner})"))
    }

    #[test]
    fn typical_selectors_are_accepted() {
        let all = [
            "device.driver == 'gpu.example.com' && device.attributes['gpu.example.com'].type == 'gpu'"
                .to_owned(),
            "device.attributes['gpu.nvidia.com'].productName.lowerAscii().matches('^.*a100.*$')".to_owned(),
            "device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('40Gi')) >= 0".to_owned(),
            "'model' in device.attributes['d'] && device.attributes['d'].model in ['A', 'B', 'C']".to_owned(),
            "device.attributes['d'].driverVersion.isGreaterThan(semver('1.2.3'))".to_owned(),
            "device.attributes.exists(d, d == 'gpu.example.com')".to_owned(),
            "device.attributes['d'].filter(name, name.startsWith('link')).size() > 2".to_owned(),
            "['A', 'B'].exists(model, device.attributes['d'].model == model)".to_owned(),
            "device.attributes['d'].model.replace(' ', '').replace('-', '_').startsWith('A_1')".to_owned(),
            vec!["device.attributes['gpu.example.com'].model == 'H100'"; 100].join(" || "),
            nested(3),
        ];
        for text in all {
            assert_eq!(DeviceSelector::compile(&text).err(), None, "{text}");
        }
    }

    #[test]
    fn expressions_that_do_not_end_soon_are_refused() {
        let steps = "is too expensive: it may take more than 100000 steps for one device; use smaller lists and fewer nested macros";
        let structs =
            "has a struct, which is not supported; compare attributes with numbers, strings and lists";
        let table = [
            ("A{} == A{}".to_owned(), structs),
            ("[A{a: 1}].size() == 1".to_owned(), structs),
            ("[1].all(a, B{} == a)".to_owned(), structs),
            (nested(5), steps),
            (nested(15), steps),
            // Values that double.
            (format!("[[1]]{}.size() > 0", ".map(a, [a, a])".repeat(40)), steps),
            (format!("'a'{} == ''", ".replace('a', 'aaaaaaaaaa')".repeat(12)), steps),
            ("lists.range(1000000000).size() > 0".to_owned(), steps),
            ("lists.range(size(device.driver)).size() > 0".to_owned(), steps),
            ("'%.999999999f'.format([1.0]) == ''".to_owned(), steps),
            ("('%.' + '999999999f').format([1.0]) == ''".to_owned(), steps),
            ("[0,0,0,0,0,0,0,0,0,0].all(a, [0,0].all(b, 'a'.matches('a{1000}{1000}')))".to_owned(), steps),
            (format!("1{} == 0", "+1".repeat(4000)), "is nested more than 64 levels deep; divide it"),
            (format!("device{} == 0", ".a".repeat(4000)), "is nested more than 64 levels deep; divide it"),
        ];
        for (text, problem) in table {
            assert_eq!(DeviceSelector::compile(&text).unwrap_err(), format!("`{text}` {problem}"));
        }
        let long = format!("'{}' == ''", "a".repeat(10_240));
        assert_eq!(
            DeviceSelector::compile(&long).unwrap_err(),
            "an expression has 10248 bytes, at most 10240 are supported"
        );
    }
}
