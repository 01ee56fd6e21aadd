/** Markdown files that begin with YAML between two lines of three dashes: skills and agent profiles. */
import { isMap, isScalar, parseDocument } from 'yaml';
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

/** Throws an error whose message a person can act on. */
export function readFrontMatter<Fields>(text: string, rules: z.ZodType<Fields>): FrontMatter<Fields> {
  const { yaml, body = '' } = fenced.exec(text)?.groups ?? {};
  if (yaml === undefined) throw new Error('it does not begin with front matter between two lines of ---');
  const parsed = rules.safeParse(membersOf(yaml));
  if (!parsed.success) throw new Error(faultOf(parsed.error));
  return { fields: parsed.data, body: body.trim() };
}

/** What breaks the rules, as one sentence without its full stop. */
export function faultOf({ issues }: z.ZodError): string {
  return issues.map(({ path, message }) => [path.join('.'), message].filter(Boolean).join(': ')).join('; ');
}

/** Anybody may have written it: what takes the parser more than a moment is refused. */
function membersOf(yaml: string): object {
  if (yaml.length > mostCharacters)
    throw new Error(`its front matter is longer than ${mostCharacters / 1024} KiB`);
  // The parser compares each key with each other one, and shows for each fault where it is: both take quadratic time.
  const document = parseDocument(yaml, { strict: true, uniqueKeys: false, prettyErrors: false });
  const [error] = document.errors;
  if (error) throw new Error(`its front matter is no YAML: ${error.message.split('\n')[0]}`);
  refuseTwice(document.contents);
  // Aliases may multiply: a small file must not become a large object.
  const members: unknown = document.toJS({ maxAliasCount: 0 }) ?? {};
  if (typeof members !== 'object' || members === null || Array.isArray(members))
    throw new Error('its front matter is a list or a word instead of members');
  return members;
}

function refuseTwice(contents: unknown): void {
  if (!isMap(contents)) return;
  const seen = new Set<string>();
  const names = contents.items.map(({ key }) => (isScalar(key) ? String(key.value) : ''));
  const twice = names.find((name) => name !== '' && (seen.has(name) || !seen.add(name)));
  if (twice !== undefined) throw new Error(`its front matter has ${twice.slice(0, 100)} twice`);
}
