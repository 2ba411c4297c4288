//! Syntax of CEL in Kubernetes that the parser leaves out, and operators that the evaluator computes differently.

use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, ListExpr, LiteralValue, operators,
};
use kube_cel::cel::parser::Parser;
use kube_cel::cel::{IdedExpr, ParseErrors};

use crate::units::dra::selector_functions::{
    AND, DOMAIN, EQUAL, HELD, OFFSET, OR, PATTERN, RELEASE, SETTLED, TEXT, UNEQUAL, WITHIN,
};

// No expression can name these variables.
const UNUSED: &str = "#unused";
const OPTIONAL: &str = "#optional";

/// Parses an expression with optional members, such as `.?name` and `[?'name']`.
pub(crate) fn parse(text: &str) -> Result<IdedExpr, ParseErrors> {
    Parser::new().enable_optional_syntax(true).parse(text)
}

/// Expands the macros that the parser leaves out, and replaces what the evaluator computes differently from Kubernetes. What the
/// API server refuses in a claim is an error.
pub(crate) fn rewrite(expression: &mut IdedExpr) -> Result<(), String> {
    let mut rewriter = Rewriter::default();
    rewriter.rewrite(expression);
    rewriter.problem.map_or(Ok(()), Err)
}

#[derive(Default)]
struct Rewriter {
    /// Variables, and whether they are the attributes or capacities by domain; the innermost last.
    scope: Vec<(String, bool)>,
    problem: Option<String>,
}

impl Rewriter {
    fn rewrite(&mut self, of: &mut IdedExpr) {
        if let Expr::Call(call) = &mut of.expr
            && let Some(expanded) = bound(call).or_else(|| mapped(call))
        {
            of.expr = expanded;
        }
        match &mut of.expr {
            Expr::Call(call) => {
                if let Some(replaced) = self.call(call) {
                    of.expr = replaced;
                }
            }
            Expr::Comprehension(macro_) => self.comprehension(macro_),
            Expr::List(list) => {
                list.elements.iter_mut().for_each(|element| self.rewrite(element));
                let elements = list.elements.iter().enumerate();
                let elements = elements.filter(|(at, _)| !list.optional_indices.contains(at));
                self.check_types("a list", elements.map(|(_, element)| element));
            }
            Expr::Map(map) => {
                let (mut keys, mut values) = (Vec::new(), Vec::new());
                for entry in &mut map.entries {
                    if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                        self.rewrite(&mut entry.key);
                        self.rewrite(&mut entry.value);
                        keys.push(&entry.key);
                        values.extend((!entry.optional).then_some(&entry.value));
                    }
                }
                self.check_types("a map", keys.into_iter());
                self.check_types("a map", values.into_iter());
            }
            Expr::Select(select) => {
                self.rewrite(&mut select.operand);
                if self.are_domains(&select.operand.expr) {
                    // Every domain exists.
                    of.expr = if select.test {
                        Expr::Literal(LiteralValue::Boolean(true.into()))
                    } else {
                        let field = Expr::Literal(LiteralValue::String(select.field.as_str().into()));
                        called(DOMAIN, None, vec![std::mem::take(&mut *select.operand), of_expr(field)])
                    };
                }
            }
            Expr::Ident(_) | Expr::Literal(_) | Expr::Struct(_) | Expr::Unspecified => {}
        }
    }

    fn call(&mut self, call: &mut CallExpr) -> Option<Expr> {
        let name = call.func_name.clone();
        call.target.as_deref_mut().into_iter().for_each(|target| self.rewrite(target));
        for argument in &mut call.args {
            match &mut argument.expr {
                // Values of any types.
                Expr::List(list) if name == "format" => {
                    list.elements.iter_mut().for_each(|element| self.rewrite(element));
                }
                _ => self.rewrite(argument),
            }
        }
        if let Some(library) = foreign_library(call) {
            self.refuse(format!("calls {library}, which the API server does not offer in claims"));
        }
        let is_method = call.target.is_some();
        match (name.as_str(), &mut call.args[..]) {
            // The evaluator fails for `.?name` if the member does not exist, and not for `[?'name']`.
            (operators::INDEX | operators::OPT_INDEX | operators::OPT_SELECT, [of, key]) => {
                if self.are_domains(&of.expr) {
                    let domain = called(DOMAIN, None, vec![std::mem::take(of), std::mem::take(key)]);
                    let is_optional = name != operators::INDEX;
                    return Some(if is_optional { optional("of", vec![of_expr(domain)]) } else { domain });
                }
                if name == operators::OPT_SELECT {
                    operators::OPT_INDEX.clone_into(&mut call.func_name);
                }
            }
            (operators::EQUALS | operators::NOT_EQUALS, [one, other]) => {
                self.check_types("a comparison", [&*one, &*other].into_iter());
                let function = if name == operators::EQUALS { EQUAL } else { UNEQUAL };
                function.clone_into(&mut call.func_name);
            }
            (operators::IN, _) => WITHIN.clone_into(&mut call.func_name),
            ("semver" | "isSemver", [text, ..]) => wrap(RELEASE, text),
            ("string", [value]) if !is_method => wrap(TEXT, value),
            ("matches", [_, pattern]) if !is_method => wrap(PATTERN, pattern),
            ("matches" | "find" | "findAll", [pattern, ..]) if is_method => wrap(PATTERN, pattern),
            ("indexOf" | "lastIndexOf", [_, offset]) if is_method => wrap(OFFSET, offset),
            _ => {}
        }
        None
    }

    fn comprehension(&mut self, of: &mut ComprehensionExpr) {
        self.rewrite(&mut of.iter_range);
        self.rewrite(&mut of.accu_init);
        let known = self.scope.len();
        // `cel.bind`
        let are_domains = of.iter_var == UNUSED && self.are_domains(&of.accu_init.expr);
        self.scope.push((of.accu_var.clone(), are_domains));
        let variables = [Some(&of.iter_var), of.iter_var2.as_ref()].into_iter().flatten();
        self.scope.extend(variables.map(|name| (name.clone(), false)));
        for part in [&mut of.loop_cond, &mut of.loop_step, &mut of.result] {
            self.rewrite(part);
        }
        self.scope.truncate(known);
        if let Expr::Call(step) = &mut of.loop_step.expr
            && let Some(Expr::Ident(result)) = step.args.first().map(|first| &first.expr)
            && *result == of.accu_var
        {
            let function = match step.func_name.as_str() {
                operators::LOGICAL_OR => OR,
                operators::LOGICAL_AND => AND,
                _ => return,
            };
            function.clone_into(&mut step.func_name);
            wrap(SETTLED, &mut of.result);
        }
    }

    /// Whether these are the attributes or capacities by domain.
    fn are_domains(&self, expression: &Expr) -> bool {
        match expression {
            Expr::Ident(name) => {
                self.scope.iter().rev().find(|(known, _)| known == name).is_some_and(|(_, are)| *are)
            }
            Expr::Select(select) => {
                ["attributes", "capacity"].contains(&select.field.as_str())
                    && !select.test
                    && matches!(&select.operand.expr, Expr::Ident(name) if name == "device")
                    && self.scope.iter().all(|(known, _)| known != "device")
            }
            _ => false,
        }
    }

    /// The API server refuses values of different types here, as far as it knows them.
    fn check_types<'a>(&mut self, place: &str, values: impl Iterator<Item = &'a IdedExpr>) {
        let mut types: Vec<&str> = values.filter_map(|value| type_of(&value.expr)).collect();
        types.sort_unstable();
        types.dedup();
        if types.len() > 1 {
            self.refuse(format!(
                "has {place} of {}, which the API server refuses; use one type",
                types.join(" and ")
            ));
        }
    }

    fn refuse(&mut self, problem: String) {
        self.problem.get_or_insert(problem);
    }
}

/// A function that the evaluator knows and the API server does not.
fn foreign_library(call: &CallExpr) -> Option<String> {
    match call.target.as_ref().map(|target| &target.expr) {
        Some(Expr::Ident(library)) if ["base64", "jsonpatch", "math"].contains(&library.as_str()) => {
            Some(format!("{library}.{}", call.func_name))
        }
        None if ["max", "min"].contains(&call.func_name.as_str()) => Some(call.func_name.clone()),
        _ => None,
    }
}

/// The type of a value if no attribute decides it.
fn type_of(value: &Expr) -> Option<&'static str> {
    Some(match value {
        Expr::Literal(LiteralValue::Boolean(_)) => "bool",
        Expr::Literal(LiteralValue::Bytes(_)) => "bytes",
        Expr::Literal(LiteralValue::Double(_)) => "double",
        Expr::Literal(LiteralValue::Int(_)) => "int",
        Expr::Literal(LiteralValue::String(_)) => "string",
        Expr::Literal(LiteralValue::UInt(_)) => "uint",
        Expr::List(_) => "list",
        Expr::Map(_) => "map",
        Expr::Call(call) if call.target.is_none() => match call.func_name.as_str() {
            "quantity" => "Quantity",
            "semver" => "Semver",
            operators::INDEX if is_capacity(&call.args.first()?.expr) => "Quantity",
            _ => return None,
        },
        Expr::Select(select) if !select.test && is_capacity(&select.operand.expr) => "Quantity",
        _ => return None,
    })
}

/// Whether these are the capacities of a domain.
fn is_capacity(expression: &Expr) -> bool {
    let Expr::Call(call) = expression else { return false };
    let of = call.args.first().map(|of| &of.expr);
    call.func_name == DOMAIN && matches!(of, Some(Expr::Select(of)) if of.field == "capacity")
}

fn of_expr(expr: Expr) -> IdedExpr {
    IdedExpr { id: 0, expr }
}

fn called(function: &str, target: Option<IdedExpr>, args: Vec<IdedExpr>) -> Expr {
    Expr::Call(CallExpr { func_name: function.to_owned(), target: target.map(Box::new), args })
}

fn named(name: &str) -> IdedExpr {
    of_expr(Expr::Ident(name.to_owned()))
}

fn optional(function: &str, args: Vec<IdedExpr>) -> Expr {
    called(function, Some(named("optional")), args)
}

fn wrap(function: &str, argument: &mut IdedExpr) {
    *argument = of_expr(called(function, None, vec![std::mem::take(argument)]));
}

/// `value.optMap(name, body)` and `value.optFlatMap(name, body)`.
fn mapped(call: &mut CallExpr) -> Option<Expr> {
    let is_flat = match call.func_name.as_str() {
        "optMap" => false,
        "optFlatMap" => true,
        _ => return None,
    };
    let (Some(value), [name, body]) = (&mut call.target, &mut call.args[..]) else { return None };
    let Expr::Ident(name) = &name.expr else { return None };
    let first = of_expr(Expr::Literal(LiteralValue::Int(0.into())));
    let held = of_expr(called(operators::INDEX, None, vec![named(OPTIONAL), first]));
    let body = of_expr(bind(name, held, std::mem::take(body)));
    let some = if is_flat { body } else { of_expr(optional("of", vec![body])) };
    let nothing = of_expr(Expr::List(ListExpr::default()));
    let is_none = of_expr(called(operators::EQUALS, None, vec![named(OPTIONAL), nothing]));
    let none = of_expr(optional("none", Vec::new()));
    let either = of_expr(called(operators::CONDITIONAL, None, vec![is_none, none, some]));
    let value = of_expr(called(HELD, None, vec![std::mem::take(&mut **value)]));
    Some(bind(OPTIONAL, value, either))
}

/// `cel.bind(name, value, body)`.
fn bound(call: &mut CallExpr) -> Option<Expr> {
    let is_macro = matches!(&call.target.as_deref()?.expr, Expr::Ident(name) if name == "cel");
    let [name, value, body] = &mut call.args[..] else { return None };
    let Expr::Ident(name) = &name.expr else { return None };
    (is_macro && call.func_name == "bind").then(|| bind(name, std::mem::take(value), std::mem::take(body)))
}

/// A loop over nothing, whose result sees the initial value.
fn bind(name: &str, value: IdedExpr, body: IdedExpr) -> Expr {
    Expr::Comprehension(Box::new(ComprehensionExpr {
        iter_range: of_expr(Expr::List(ListExpr::default())),
        iter_var: UNUSED.to_owned(),
        iter_var2: None,
        accu_var: name.to_owned(),
        accu_init: value,
        loop_cond: of_expr(Expr::Literal(LiteralValue::Boolean(false.into()))),
        loop_step: named(name),
        result: body,
    }))
}

#[cfg(test)]
mod tests {
    use crate::units::dra::published::published_pool;
    use crate::units::dra::selectors::{DeviceSelector, functions};

    #[test]
    fn optional_members_and_bound_names_are_evaluated() {
        let slice = "{metadata: {name: s}, spec: {driver: d.example.com, nodeName: n, pool: {name: n, generation: 1, \
            resourceSliceCount: 1}, devices: [{name: a, attributes: {model: {string: A100}, index: {int: 3}}, \
            capacity: {memory: {value: 40Gi}}}]}}";
        let pool = published_pool(&[serde_yaml::from_str(slice).unwrap()]);
        let own = "device.attributes['d.example.com']";
        for (text, expected) in [
            (format!("{own}.?model.orValue('') == 'A100'"), true),
            (format!("{own}.?none.orValue('none') == 'none'"), true),
            (format!("{own}[?'none'].hasValue()"), false),
            ("device.attributes[?'d.example.com'].?model.hasValue()".to_owned(), true),
            ("device.attributes[?'e.example.com'].?model.hasValue()".to_owned(), false),
            (format!("cel.bind(own, {own}, own.model == 'A100' && own.index == 3)"), true),
            (format!("cel.bind(a, {own}, cel.bind(b, a.index, [b, 4].exists(c, c == a.index)))"), true),
            (format!("['A100'].exists(m, cel.bind(model, {own}.model, m == model))"), true),
            (
                "cel.bind(cap, device.capacity['d.example.com'], has(cap.memory) && cap.memory.compareTo(quantity('16Gi')) >= 0)"
                    .to_owned(),
                true,
            ),
            (format!("dyn({own}.index) == 3"), true),
        ] {
            let selector = DeviceSelector::compile(&text).unwrap();
            assert_eq!(selector.selects(&pool.devices[0], &functions()), Ok(expected), "{text}");
        }
    }
}
