//! Names of variables of programs.
//!
//! Owns: what is such a name, and which of them are as good as code. Must not:
//! know values.

/// Variables with which a program starts differently than it was written.
const CODE: [&str; 34] = [
    "BASHOPTS",
    "BASH_ENV",
    "CLASSPATH",
    "ENV",
    "FPATH",
    "GCONV_PATH",
    "GIO_EXTRA_MODULES",
    "IFS",
    "JAVA_TOOL_OPTIONS",
    "KSH_ENV",
    "LUA_INIT",
    "NODE_OPTIONS",
    "NODE_PATH",
    "NODE_REDIRECT_WARNINGS",
    "NODE_REPL_EXTERNAL_MODULE",
    "NODE_REPL_HISTORY",
    "NODE_V8_COVERAGE",
    "OPENSSL_CONF",
    "PERL5DB",
    "PERL5LIB",
    "PERL5OPT",
    "PROMPT_COMMAND",
    "PS4",
    "PYTHONBREAKPOINT",
    "PYTHONHOME",
    "PYTHONINSPECT",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "RUBYLIB",
    "RUBYOPT",
    "SHELLOPTS",
    "TCLLIBPATH",
    "ZDOTDIR",
    "_JAVA_OPTIONS",
];
/// The same for whole families.
const CODE_BEGINNINGS: [&str; 3] = ["LD_", "DYLD_", "BASH_FUNC_"];

/// Whether programs take this for the name of a variable.
pub fn is_variable(name: &str) -> bool {
    let mut letters = name.bytes();
    letters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == b'_')
}

/// Whether who sets a variable of this name, however it is cased, decides which
/// code the program runs.
pub fn decides_code(name: &str) -> bool {
    let name = name.to_uppercase();
    CODE.contains(&name.as_str()) || CODE_BEGINNINGS.iter().any(|start| name.starts_with(start))
}
