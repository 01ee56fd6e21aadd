/** Markdown files that begin with YAML between two lines of three dashes. */
import { isMap, isScalar, parseDocument } from 'yaml';

export interface FrontMatter {
  /** The members of the YAML; empty where there is none. */
  readonly fields: Readonly<Record<string, unknown>>;
  /** What follows, without blank lines around it. */
  readonly body: string;
}

const fenced = /^\uFEFF?---[ \t]*\r?\n(?<yaml>(?:[^\n]*\n)*?)---[ \t]*(?:\r?\n(?<body>[\s\S]*))?$/;

/** More is no front matter of anybody, and a few hundred of such files are read again at each step. */
const mostCharacters = 8 * 1024;

/** Throws an error whose message a person can act on. */
export function parseFrontMatter(text: string): FrontMatter {
  const found = fenced.exec(text);
  const { yaml = '', body = '' } = found ? (found.groups ?? {}) : { body: text };
  const fields: unknown = readYaml(yaml) ?? {};
  if (typeof fields !== 'object' || Array.isArray(fields))
    throw new Error('its front matter is a list or a word instead of members');
  return { fields: fields as Record<string, unknown>, body: body.trim() }; // an object, as was just checked
}

/**
 * The value of the YAML that stands above a text. Anybody may have written it: what takes the parser more than a moment
 * is refused. Throws an error whose message a person can act on.
 */
export function readYaml(yaml: string): unknown {
  if (yaml.length > mostCharacters)
    throw new Error(`its front matter is longer than ${mostCharacters / 1024} KiB`);
  // The parser compares each key with each other one, and shows for each fault where it is: both take quadratic time.
  const document = parseDocument(yaml, { strict: true, uniqueKeys: false, prettyErrors: false });
  const [error] = document.errors;
  if (error) throw new Error(`its front matter is no YAML: ${error.message.split('\n')[0]}`);
  refuseTwice(document.contents);
  // Aliases may multiply: a small file must not become a large object.
  return document.toJS({ maxAliasCount: 0 });
}

function refuseTwice(contents: unknown): void {
  if (!isMap(contents)) return;
  const seen = new Set<string>();
  const names = contents.items.map(({ key }) => (isScalar(key) ? String(key.value) : ''));
  const twice = names.find((name) => name !== '' && (seen.has(name) || !seen.add(name)));
  if (twice !== undefined) throw new Error(`its front matter has ${twice.slice(0, 100)} twice`);
}
