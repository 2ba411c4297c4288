//! Splits text into tokens with positions. Constructs outside of the policy language are refused here or by the parser,
//! always by name.

use crate::fault::{At, Fault};

/// A token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// An identifier that starts with a lower-case letter: a predicate, constant or function.
    Name(String),
    /// An identifier that starts with an upper-case letter.
    Variable(String),
    Anonymous,
    Number(i32),
    Text(String),
    /// `#` and a word, without the `#`.
    Directive(String),
    Not,
    /// Punctuation and operators.
    Mark(&'static str),
    End,
}

/// Longest first, so that no mark hides another.
const MARKS: [&str; 33] = [
    ":-", ":~", "..", "==", "!=", "<>", "<=", ">=", "**", ".", ",", ";", ":", "(", ")", "[", "]", "{", "}",
    "@", "|", "+", "-", "*", "/", "\\", "=", "<", ">", "&", "?", "^", "~",
];

/// Splits a program; the last token is [`Token::End`].
pub(crate) fn tokens(text: &str) -> Result<Vec<(At, Token)>, Fault> {
    let mut reader = Reader { rest: text, at: At { line: 1, column: 1 } };
    let mut tokens = Vec::new();
    loop {
        reader.skip_blank()?;
        let at = reader.at;
        let token = reader.token()?;
        let is_last = token == Token::End;
        tokens.push((at, token));
        if is_last {
            return Ok(tokens);
        }
    }
}

struct Reader<'a> {
    rest: &'a str,
    at: At,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn step(&mut self) -> Option<char> {
        let character = self.peek()?;
        self.rest = &self.rest[character.len_utf8()..];
        if character == '\n' {
            self.at = At { line: self.at.line + 1, column: 1 };
        } else {
            self.at.column += 1;
        }
        Some(character)
    }

    fn take(&mut self, belongs: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !belongs(c)).unwrap_or(self.rest.len());
        let taken = &self.rest[..end];
        taken.chars().for_each(|_| {
            self.step();
        });
        taken
    }

    fn skip_blank(&mut self) -> Result<(), Fault> {
        loop {
            self.take(|c| matches!(c, ' ' | '\t' | '\r' | '\n'));
            if self.rest.starts_with("%*") {
                let problem =
                    "a block comment can hide rules from the eye; start each line of a comment with %";
                return Err(Fault::new(self.at, problem));
            }
            if !self.rest.starts_with('%') {
                return Ok(());
            }
            self.take(|c| c != '\n');
        }
    }

    fn token(&mut self) -> Result<Token, Fault> {
        let at = self.at;
        let Some(first) = self.peek() else { return Ok(Token::End) };
        if first.is_ascii_digit() {
            return self.number(at);
        }
        if first == '"' {
            return self.text(at);
        }
        if first.is_ascii_alphabetic() || first == '_' {
            return self.word(at);
        }
        if first == '#' {
            self.step();
            return Ok(Token::Directive(self.take(|c| c.is_ascii_alphanumeric() || c == '_').to_owned()));
        }
        if let Some(mark) = MARKS.into_iter().find(|mark| self.rest.starts_with(mark)) {
            mark.chars().for_each(|_| {
                self.step();
            });
            return Ok(Token::Mark(mark));
        }
        let shown = first.escape_default();
        Err(Fault::new(
            at,
            format!("`{shown}` is no part of the language; outside of \"…\" and comments remove it"),
        ))
    }

    fn number(&mut self, at: At) -> Result<Token, Fault> {
        let digits = self.take(|c| c.is_ascii_alphanumeric() || c == '_');
        if digits.len() > 1 && digits.starts_with('0') || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(Fault::new(
                at,
                format!("`{digits}` is no decimal number; write digits alone, without a leading 0"),
            ));
        }
        if digits.len() > 9 {
            let problem = format!(
                "`{digits}` has 10 digits or more, and clingo computes in 32 bits; use a coarser unit"
            );
            return Err(Fault::new(at, problem));
        }
        Ok(Token::Number(digits.parse().expect("nine digits fit 32 bits")))
    }

    fn text(&mut self, at: At) -> Result<Token, Fault> {
        self.step();
        let mut text = String::new();
        loop {
            let here = self.at;
            match self.step() {
                Some('"') => return Ok(Token::Text(text)),
                None | Some('\n') => {
                    return Err(Fault::new(at, "the string does not end on its line; close it with \""));
                }
                Some('\\') => match self.step() {
                    Some('n') => text.push('\n'),
                    Some(plain @ ('\\' | '"')) => text.push(plain),
                    _ => {
                        return Err(Fault::new(
                            here,
                            "in a string \\ stands before \\, \" or n only; write \\\\ for one \\",
                        ));
                    }
                },
                Some('\0') => {
                    return Err(Fault::new(here, "a string cannot hold the character 0; remove it"));
                }
                Some(other) => text.push(other),
            }
        }
    }

    fn word(&mut self, at: At) -> Result<Token, Fault> {
        let word = self.take(|c| c.is_ascii_alphanumeric() || c == '_');
        let start = word.trim_start_matches('_').chars().next();
        match start {
            None if word == "_" => Ok(Token::Anonymous),
            Some(_) if word == "not" => Ok(Token::Not),
            Some(first) if first.is_ascii_uppercase() => Ok(Token::Variable(word.to_owned())),
            Some(first) if first.is_ascii_lowercase() && !word.starts_with('_') => {
                Ok(Token::Name(word.to_owned()))
            }
            _ => Err(Fault::new(at, format!("`{word}` is no name; names start with a letter"))),
        }
    }
}
