/** Reads what the parts of a test run gave, and words it: counts, what was skipped, seconds. */

/** What one part took. */
export interface Cost {
  readonly seconds: number;
  /** Of the processors, by all of its processes; null where the system does not count them. */
  readonly cpuSeconds: number | null;
}

/** A test that failed. */
export interface Failure {
  readonly title: string;
  /** What it said, and where; empty where it said nothing. */
  readonly reason: string;
}

/** What one part gave. */
export interface PartResult extends Cost {
  readonly name: string;
  readonly passed: number;
  readonly failed: readonly Failure[];
  readonly skipped: readonly string[];
}

/** The members that we read of the report that vitest writes with `--reporter=json`. */
export interface VitestReport {
  readonly testResults: readonly {
    readonly name: string;
    readonly status: string;
    readonly message: string;
    readonly assertionResults: readonly {
      readonly status: string;
      readonly fullName: string;
      readonly failureMessages?: readonly string[];
    }[];
  }[];
}

/** Counts the tests of a report. Null stands for a report that was never written: the run itself broke. */
export function readVitestPart(
  name: string,
  cost: Cost,
  report: VitestReport | null,
  exitCode: number | null,
): PartResult {
  const files = report?.testResults ?? [];
  const tests = files.flatMap((file) =>
    file.assertionResults.map(({ status, fullName, failureMessages = [] }) => ({
      status,
      title: `${file.name}: ${fullName}`,
      reason: reasonIn(failureMessages.join('\n')),
    })),
  );
  const failed = [
    ...tests.filter(({ status }) => status === 'failed').map(({ title, reason }) => ({ title, reason })),
    ...files
      .filter(brokeBeforeItsTests)
      .map((file) => ({ title: `${file.name}: ${beforeTests}`, reason: reasonIn(file.message) })),
  ];
  // A run can break where no test can be blamed, for instance by an error that nothing awaited.
  const broke = report === null || exitCode !== 0;
  if (broke && failed.length === 0)
    failed.push({ title: `${name}: the run ended with ${exitCode ?? 'a signal'}`, reason: '' });
  return {
    name,
    ...cost,
    passed: tests.filter(({ status }) => status === 'passed').length,
    failed,
    skipped: tests.filter(({ status }) => !['passed', 'failed'].includes(status)).map(({ title }) => title),
  };
}

const mostOfReason = 600;

/** Without the whole stack: what of it lies in the project, once. A log that keeps only its end tells of a flake, too. */
function reasonIn(message: string): string {
  const [said = '', ...frames] = message.split(/\n +at /);
  const place = frames.find((frame) => !/node_modules|<anonymous>|\bnode:/.test(frame));
  const shown = said.length > mostOfReason ? `${said.slice(0, mostOfReason)} …` : said;
  return place === undefined ? shown : `${shown}\nat ${place.trimEnd()}`;
}

const beforeTests = 'failed outside of its tests';

/** A file that could not be read, or whose preparation failed, has no failed test of its own. */
function brokeBeforeItsTests(file: VitestReport['testResults'][number]): boolean {
  return file.status === 'failed' && !file.assertionResults.some(({ status }) => status === 'failed');
}

/** A part that is one program: it passes or fails as a whole. */
export function readWholePart(name: string, cost: Cost, exitCode: number | null): PartResult {
  const failed =
    exitCode === 0 ? [] : [{ title: `${name}: ended with ${exitCode ?? 'a signal'}`, reason: '' }];
  return { name, ...cost, passed: exitCode === 0 ? 1 : 0, failed, skipped: [] };
}

/** The end of a test run: what failed, what was skipped, what each part took, and the one last line. */
export function summarise(parts: readonly PartResult[]): string {
  const failed = parts.flatMap((part) => part.failed);
  const skipped = parts.flatMap((part) => part.skipped);
  return [
    ...failed.flatMap(({ title, reason }) => [`failed: ${title}`, ...indented(reason)]),
    ...skipped.map((title) => `skipped: ${title}`),
    '',
    ...table(parts),
    '',
    `${sum(parts.map(({ passed }) => passed))} passed, ${failed.length} failed, ${skipped.length} skipped`,
  ].join('\n');
}

function indented(reason: string): string[] {
  return reason === '' ? [] : reason.split('\n').map((line) => `    ${line}`);
}

/**
 * What one round of `make flake` printed: its counts, and what failed. All tests end with the line of `summarise`; a
 * part of them ends as vitest does, which names its failures otherwise.
 */
export function readRound(log: string, exitCode: number | null): { counts: string; failed: string[] } {
  const counts = log.match(/^(?: +Tests +)?\d+ (?:passed|failed|skipped)\b.*$/gm)?.at(-1);
  const named = [...log.matchAll(/^(?:failed:| FAIL ) (.+)$/gm)].map(([, title = '']) => title.trim());
  const failed = [...new Set([...named, ...skippedIn(log, counts)])];
  // A round that never came to its end proves nothing, whatever it says.
  const broke = exitCode !== 0 || counts === undefined;
  if (broke && failed.length === 0) failed.push(`the round ended with ${exitCode ?? 'a signal'}`);
  return { counts: counts?.replace(/^ +Tests +/, '') ?? 'no counts', failed };
}

/** A round of all tests that leaves some out proves nothing of them; in a part, vitest counts what was not asked for too. */
function skippedIn(log: string, counts: string | undefined): string[] {
  if (counts === undefined || !/^\d+ passed, .* [1-9]\d* skipped$/.test(counts)) return [];
  const titles = [...log.matchAll(/^skipped: (.+)$/gm)].map(([line]) => line);
  return titles.length > 0 ? titles : [counts];
}

/** In how many rounds what failed did so, the most frequent first; then the one last line. */
export function tally(failures: readonly (readonly string[])[]): string {
  const rounds = Map.groupBy(failures.flat(), (title) => title);
  const lines = [...rounds]
    .toSorted(([, left], [, right]) => right.length - left.length)
    .map(([title, { length }]) => `failed in ${length} of ${failures.length} rounds: ${title}`);
  const flaked = failures.filter((titles) => titles.length > 0).length;
  return [...lines, `${failures.length} rounds, ${flaked} failed`].join('\n');
}

function table(parts: readonly PartResult[]): string[] {
  const width = Math.max('part'.length, ...parts.map(({ name }) => name.length));
  const row = (name: string, ...cells: (string | number)[]) =>
    name.padEnd(width) + cells.map((cell) => String(cell).padStart(9)).join('');
  return [
    row('part', 'seconds', 'CPU', 'passed', 'failed', 'skipped'),
    ...parts.map(({ name, seconds, cpuSeconds, passed, failed, skipped }) =>
      row(
        name,
        ...[seconds.toFixed(1), cpuSeconds?.toFixed(1) ?? '-'],
        ...[passed, failed.length, skipped.length],
      ),
    ),
  ];
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
