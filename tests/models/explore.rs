//! Trying a model over many interleavings.

use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, Runner};
use tokio::time::Instant;

/// Interleavings of each kind when nobody says how many.
const ROUNDS: usize = 600;
/// Bytes of stack of a task: unoptimised code with futures in it.
const STACK: usize = 256 * 1024;
/// How often the priorities change in a PCT run.
const PCT_DEPTH: usize = 4;

/// Tries those whose names have one of the words of the command line.
pub fn all(models: &[(&str, fn())]) {
    let words: Vec<String> = std::env::args().skip(1).filter(|it| !it.starts_with('-')).collect();
    let said = std::env::var("CLAWGATE_MODELS_ROUNDS").ok();
    let rounds = said.as_ref().map_or(ROUNDS, |text| text.parse().unwrap());
    // The short run is the same each time; a long one should not be.
    let seed = if said.is_some() { u64::from(std::process::id()) } else { 1 };
    // Tests are listed, not models.
    if std::env::args().any(|it| it == "--list") {
        return;
    }
    for (name, model) in models {
        if words.is_empty() || words.iter().any(|word| name.contains(word)) {
            let began = Instant::now();
            run(RandomScheduler::new_from_seed(seed, rounds), *model);
            run(PctScheduler::new_from_seed(seed, PCT_DEPTH, rounds), *model);
            println!("model {name}: 2 * {rounds} in {:?}, seed {seed}", began.elapsed());
        }
    }
}

fn run(scheduler: impl Scheduler + 'static, model: fn()) {
    let mut config = Config::new();
    config.stack_size = STACK;
    config.silence_warnings = true;
    Runner::new(scheduler, config).run(model);
}
