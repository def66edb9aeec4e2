//! From words to a condition, by descent: `||`, `&&`, `!`, comparisons, sums, products.

use super::{
    Aggregate, BadExpression, Comparison, LabelMatch, MetricSelector, Number, Operator, Reading,
    Test,
    lexer::{Token, Word, words},
};
use crate::name::near_miss;

/// Deepest nesting.
const MAX_DEPTH: usize = 32;

/// Reads a condition.
pub(super) fn parse(text: &str) -> Result<Test, BadExpression> {
    let words = words(text)?;
    let end = text.chars().count() + 1;
    let mut parser = Parser { words: &words, end, depth: 0 };
    let value = parser.either()?;
    if let Some(token) = parser.words.first() {
        return Err(parser.unexpected(token.at, "an operator such as && or >"));
    }
    let mut reads = false;
    let test = parser.test(value)?;
    test.visit(&mut |_| reads = true);
    if !reads {
        let hint = "compare a reading, such as max(vllm:gpu_cache_usage_perc) > 0.85";
        return Err(fault(1, "the condition reads nothing, so it never changes", hint));
    }
    Ok(test)
}

struct Parser<'a> {
    words: &'a [Token<'a>],
    /// Behind the last character.
    end: usize,
    depth: usize,
}

/// What a part of the text turned out to be, and where it begins.
struct Value {
    what: What,
    at: usize,
}

enum What {
    Test(Test),
    Number(Number),
}

type Parsed<T> = Result<T, BadExpression>;

impl<'a> Parser<'a> {
    fn either(&mut self) -> Parsed<Value> {
        self.chain(&["||", "or"], Self::both, Test::Any)
    }

    fn both(&mut self) -> Parsed<Value> {
        self.chain(&["&&", "and"], Self::negated, Test::All)
    }

    /// Parts between the same operator.
    fn chain(
        &mut self,
        operators: &[&str],
        part: fn(&mut Self) -> Parsed<Value>,
        of: fn(Vec<Test>) -> Test,
    ) -> Parsed<Value> {
        let first = part(self)?;
        if self.peek_any(operators).is_none() {
            return Ok(first);
        }
        let at = first.at;
        let mut parts = vec![self.test(first)?];
        while self.take_any(operators).is_some() {
            let next = part(self)?;
            parts.push(self.test(next)?);
        }
        Ok(Value { what: What::Test(of(parts)), at })
    }

    fn negated(&mut self) -> Parsed<Value> {
        let at = self.at();
        if self.take_any(&["!", "not"]).is_none() {
            return self.compared();
        }
        let inner = self.deeper(Self::negated)?;
        let inner = self.test(inner)?;
        Ok(Value { what: What::Test(Test::Not(Box::new(inner))), at })
    }

    fn compared(&mut self) -> Parsed<Value> {
        let left = self.sum()?;
        let at = left.at;
        let Some((comparison, place)) = self.comparison()? else { return Ok(left) };
        let left = self.number(left)?;
        let right = self.sum()?;
        let right = self.number(right)?;
        if self.comparison()?.is_some() {
            let hint = "write such as 0.5 < x && x < 0.9";
            return Err(fault(place, "comparisons do not follow each other", hint));
        }
        Ok(Value { what: What::Test(Test::Compare(left, comparison, right)), at })
    }

    fn comparison(&mut self) -> Parsed<Option<(Comparison, usize)>> {
        let at = self.at();
        let known = [
            ("<=", Comparison::AtMost),
            (">=", Comparison::AtLeast),
            ("==", Comparison::Equal),
            ("!=", Comparison::Unequal),
            ("<", Comparison::Less),
            (">", Comparison::More),
        ];
        if self.peek_any(&["=", "=~", "!~"]).is_some() {
            return Err(fault(at, "this does not compare numbers", "write == for equal"));
        }
        let found = known.into_iter().find(|(sign, _)| self.take_any(&[sign]).is_some());
        Ok(found.map(|(_, comparison)| (comparison, at)))
    }

    fn sum(&mut self) -> Parsed<Value> {
        let signs = [("+", Operator::Plus), ("-", Operator::Minus)];
        self.arithmetic(&signs, Self::product)
    }

    fn product(&mut self) -> Parsed<Value> {
        let signs = [("*", Operator::Times), ("/", Operator::Over)];
        self.arithmetic(&signs, Self::single)
    }

    fn arithmetic(
        &mut self,
        signs: &[(&str, Operator)],
        part: fn(&mut Self) -> Parsed<Value>,
    ) -> Parsed<Value> {
        let mut left = part(self)?;
        let mut count = 0;
        while let Some((_, operator)) =
            signs.iter().find(|(sign, _)| self.take_any(&[sign]).is_some())
        {
            // Each makes the tree deeper by one.
            count += 1;
            if count > MAX_DEPTH {
                return Err(self.too_deep());
            }
            let at = left.at;
            let number = self.number(left)?;
            let right = part(self)?;
            let right = self.number(right)?;
            let number = Number::Arithmetic(Box::new(number), *operator, Box::new(right));
            left = Value { what: What::Number(number), at };
        }
        Ok(left)
    }

    fn single(&mut self) -> Parsed<Value> {
        let at = self.at();
        let Some(token) = self.next() else {
            return Err(fault(at, "the condition ends too early", "compare with a number"));
        };
        let what = match token.word {
            Word::Number(value) => What::Number(Number::Constant(value)),
            Word::Sign("-") => {
                let inner = self.deeper(Self::single)?;
                What::Number(Number::Negative(Box::new(self.number(inner)?)))
            }
            Word::Sign("(") => {
                let inner = self.deeper(Self::either)?;
                self.expect(")")?;
                inner.what
            }
            Word::Name(name) => What::Number(Number::Reading(self.reading(name, at)?)),
            Word::Quoted(_) => {
                let hint = "write such as max(\"name\")";
                return Err(fault(at, "a metric has many values", hint));
            }
            Word::Sign(_) => return Err(self.unexpected(at, "a number or a reading")),
        };
        Ok(Value { what, at })
    }

    fn reading(&mut self, name: &str, at: usize) -> Parsed<Reading> {
        if self.take_any(&["("]).is_some() {
            let Some(aggregate) = Aggregate::named(name) else {
                let hint = "use max, min, sum, avg or count";
                return Err(fault(at, &format!("'{name}' is not an aggregate"), hint));
            };
            let selector = self.selector()?;
            self.expect(")")?;
            return Ok(Reading::Metric { aggregate, selector });
        }
        match name {
            "breaker_open" => Ok(Reading::BreakerOpen),
            "tool_timeouts" => Ok(Reading::ToolTimeouts),
            _ => {
                let what = format!("'{name}' is not one number");
                let known = ["breaker_open", "tool_timeouts"];
                let hint = match near_miss(name, known) {
                    Some(near) => format!("did you mean '{near}'?"),
                    None => format!("use breaker_open, tool_timeouts, or such as max({name})"),
                };
                Err(fault(at, &what, &hint))
            }
        }
    }

    fn selector(&mut self) -> Parsed<MetricSelector> {
        let name = match self.next().map(|token| (token.word, token.at)) {
            Some((Word::Name(name) | Word::Quoted(name), _)) if !name.is_empty() => name.to_owned(),
            found => {
                let at = found.map_or(self.end, |(_, at)| at);
                return Err(self.unexpected(at, "the name of a metric"));
            }
        };
        let mut labels = Vec::new();
        if self.take_any(&["{"]).is_some() {
            while self.take_any(&["}"]).is_none() {
                if !labels.is_empty() {
                    self.expect(",")?;
                }
                labels.push(self.label()?);
            }
        }
        Ok(MetricSelector { name, labels })
    }

    fn label(&mut self) -> Parsed<LabelMatch> {
        let at = self.at();
        let Some(Token { word: Word::Name(label), .. }) = self.next() else {
            return Err(self.unexpected(at, "the name of a label"));
        };
        let at = self.at();
        let equal = match self.take_any(&["=", "!="]) {
            Some(sign) => sign == "=",
            None => return Err(self.unexpected(at, "= or != behind the label")),
        };
        let at = self.at();
        let Some(Token { word: Word::Quoted(value), .. }) = self.next() else {
            return Err(self.unexpected(at, "a value in quotes"));
        };
        Ok(LabelMatch { label: (*label).to_owned(), equal, value: (*value).to_owned() })
    }

    fn test(&self, value: Value) -> Parsed<Test> {
        match value.what {
            What::Test(test) => Ok(test),
            What::Number(_) => {
                let hint = "compare it, such as with > 0";
                Err(fault(value.at, "a number is neither true nor false", hint))
            }
        }
    }

    fn number(&self, value: Value) -> Parsed<Number> {
        match value.what {
            What::Number(number) => Ok(number),
            What::Test(_) => {
                let hint = "join comparisons with && or ||";
                Err(fault(value.at, "what is true or false is not a number", hint))
            }
        }
    }

    fn deeper(&mut self, inner: fn(&mut Self) -> Parsed<Value>) -> Parsed<Value> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.too_deep());
        }
        let value = inner(self)?;
        self.depth -= 1;
        Ok(value)
    }

    fn too_deep(&self) -> BadExpression {
        let what = format!("nests more than {MAX_DEPTH} levels deep");
        fault(self.at(), &what, "make it simpler")
    }

    fn at(&self) -> usize {
        self.words.first().map_or(self.end, |token| token.at)
    }

    fn next(&mut self) -> Option<&'a Token<'a>> {
        let (first, rest) = self.words.split_first()?;
        self.words = rest;
        Some(first)
    }

    fn peek_any(&self, wanted: &[&str]) -> Option<&'a str> {
        match self.words.first()?.word {
            Word::Sign(text) | Word::Name(text) => wanted.contains(&text).then_some(text),
            Word::Number(_) | Word::Quoted(_) => None,
        }
    }

    fn take_any(&mut self, wanted: &[&str]) -> Option<&'a str> {
        let found = self.peek_any(wanted)?;
        self.next();
        Some(found)
    }

    fn expect(&mut self, sign: &str) -> Parsed<()> {
        match self.take_any(&[sign]) {
            Some(_) => Ok(()),
            None => Err(self.unexpected(self.at(), &format!("'{sign}'"))),
        }
    }

    fn unexpected(&self, at: usize, wanted: &str) -> BadExpression {
        let what = if at == self.end { "the condition ends too early" } else { "is not expected" };
        fault(at, what, &format!("expected {wanted}"))
    }
}

fn fault(at: usize, what: &str, hint: &str) -> BadExpression {
    BadExpression { at, what: what.to_owned(), hint: hint.to_owned() }
}
