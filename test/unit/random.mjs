import fc from 'fast-check';

// The same tries on every machine, so that a push fails for what it changed. FC_SEED=n looks elsewhere, and is printed by what it breaks.
fc.configureGlobal({ seed: Number(process.env.FC_SEED ?? 1) });
