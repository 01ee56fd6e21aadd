/** Checks of the terminal: colours, characters, size. */
import type { Finding, Scene } from './examination.ts';

/** The interface needs about this much room. */
const least = { columns: 80, rows: 24 };

/** What the terminal says of itself. */
export function examineTerminal({ environment }: Scene): Finding[] {
  const findings = [...typeFindings(environment), ...localeFindings(environment), ...sizeFindings()];
  return findings.length > 0 ? findings : [{ level: 'ok', message: describeTerminal(environment) }];
}

function typeFindings({ TERM }: Scene['environment']): Finding[] {
  if (TERM === 'dumb' || (!TERM && process.stdout.isTTY)) {
    const message = TERM
      ? 'TERM is dumb: without colours, and without the interface.'
      : 'TERM is not set, so that nobody knows what the terminal can do.';
    return [
      { level: 'warning', message, remedy: 'Use another terminal, or set TERM, as to xterm-256color.' },
    ];
  }
  return [];
}

function localeFindings({ LC_ALL, LC_CTYPE, LANG }: Scene['environment']): Finding[] {
  const locale = LC_ALL || LC_CTYPE || LANG || '';
  // These systems write UTF-8 whatever the variables say.
  if (process.platform === 'darwin' || process.platform === 'win32' || /utf-?8/i.test(locale)) return [];
  return [
    {
      level: 'warning',
      message: `The locale ${locale === '' ? 'is not set' : `${locale} has no UTF-8`}, so that some characters may be shown wrong.`,
      remedy: 'Set LANG to a UTF-8 locale, as to C.UTF-8.',
    },
  ];
}

function sizeFindings(): Finding[] {
  if (!process.stdout.isTTY) return [];
  const { columns, rows } = process.stdout;
  // Some terminals do not say.
  if (!columns || !rows || (columns >= least.columns && rows >= least.rows)) return [];
  return [
    {
      level: 'warning',
      message: `The terminal has ${columns} columns and ${rows} rows.`,
      remedy: `Make it at least ${least.columns} by ${least.rows}.`,
    },
  ];
}

function describeTerminal({ TERM, NO_COLOR }: Scene['environment']): string {
  if (!process.stdout.isTTY) return 'The answer goes into a pipe or a file: plain, without colours.';
  return `${TERM}, ${NO_COLOR ? 'without colours, as NO_COLOR asks' : `${2 ** process.stdout.getColorDepth()} colours`}.`;
}
