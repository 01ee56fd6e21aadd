/** Markdown files that begin with YAML between two lines of three dashes: skills and agent profiles. */
import { type Document, isMap, isScalar, LineCounter, parseDocument, visit } from 'yaml';
import type { z } from 'zod';

export interface FrontMatter<Fields> {
  /** The members of the YAML, by the rules. */
  readonly fields: Fields;
  /** What follows, without blank lines around it. */
  readonly body: string;
}

const fenced = /^\uFEFF?---[ \t]*\r?\n(?<yaml>(?:[^\n]*\n)*?)---[ \t]*(?:\r?\n(?<body>[\s\S]*))?$/;

/** More is no front matter of anybody, and a few hundred of such files are read again at each step. */
const mostCharacters = 8 * 1024;

/** One thing that is wrong, and the line of the file. */
export interface FrontMatterFault {
  readonly line: number;
  readonly message: string;
}

/** Why there is no front matter to be had; its message says all of it in one sentence without its full stop. */
export class FrontMatterError extends Error {
  readonly faults: readonly FrontMatterFault[];
  constructor(faults: readonly FrontMatterFault[]) {
    super(faults.map(({ message }) => message).join('; '));
    this.faults = faults;
  }
}

/** Throws FrontMatterError, whose message a person can act on. */
export function readFrontMatter<Fields>(text: string, rules: z.ZodType<Fields>): FrontMatter<Fields> {
  const { yaml, body = '' } = fenced.exec(text)?.groups ?? {};
  if (yaml === undefined) throw broken('it does not begin with front matter between two lines of ---');
  const { members, lineOf } = membersOf(yaml);
  const parsed = rules.safeParse(members);
  if (!parsed.success)
    throw new FrontMatterError(
      parsed.error.issues.map(({ path, message }) => ({
        line: lineOf(path[0]),
        message: [path.join('.'), message].filter(Boolean).join(': '),
      })),
    );
  return { fields: parsed.data, body: body.trim() };
}

/** What breaks the rules, as one sentence without its full stop. */
export function faultOf({ issues }: z.ZodError): string {
  return issues.map(({ path, message }) => [path.join('.'), message].filter(Boolean).join(': ')).join('; ');
}

/** Anybody may have written it: what takes the parser more than a moment is refused. */
function membersOf(yaml: string): { members: object; lineOf(name: unknown): number } {
  if (yaml.length > mostCharacters)
    throw broken(`its front matter is longer than ${mostCharacters / 1024} KiB`);
  // The parser compares each key with each other one, and shows for each fault where it is: both take quadratic time.
  const lineCounter = new LineCounter();
  const document = parseDocument(yaml, {
    ...{ strict: true, uniqueKeys: false, prettyErrors: false, lineCounter },
    // What it only warns of goes to the console of the process.
    logLevel: 'error',
  });
  const lineAt = (offset: number) => lineCounter.linePos(offset).line + 1;
  const [error] = document.errors;
  if (error)
    throw broken(`its front matter is no YAML: ${error.message.split('\n')[0]}`, lineAt(error.pos[0]));
  refuseTwice(document.contents, lineAt);
  refuseAliases(document, lineAt);
  const members: unknown = document.toJS() ?? {};
  if (typeof members !== 'object' || members === null || Array.isArray(members))
    throw broken('its front matter is a list or a word instead of members');
  return { members, lineOf: (name) => lineAt(offsetOf(document.contents, name)) };
}

/** Where a member stands; the beginning where there is none of that name. */
function offsetOf(contents: Document['contents'], name: unknown): number {
  if (!isMap(contents)) return 0;
  const found = contents.items.find(({ key }) => isScalar(key) && key.value === name)?.key;
  return isScalar(found) ? (found.range?.[0] ?? 0) : 0;
}

function refuseTwice(contents: Document['contents'], lineAt: (offset: number) => number): void {
  if (!isMap(contents)) return;
  const seen = new Set<string>();
  for (const { key } of contents.items) {
    const name = isScalar(key) ? String(key.value) : '';
    if (name !== '' && seen.has(name))
      throw broken(
        `its front matter has ${name.slice(0, 100)} twice`,
        lineAt(isScalar(key) ? (key.range?.[0] ?? 0) : 0),
      );
    seen.add(name);
  }
}

/** They may multiply: a small file must not become a large object. */
function refuseAliases(document: Document.Parsed, lineAt: (offset: number) => number): void {
  visit(document, {
    Alias(_, { source, range }) {
      throw broken(
        `its front matter has the alias *${source.slice(0, 100)}; write what it stands for`,
        lineAt(range?.[0] ?? 0),
      );
    },
  });
}

function broken(message: string, line = 1): FrontMatterError {
  return new FrontMatterError([{ line, message }]);
}
