/** Markdown files that begin with YAML between two lines of three dashes. */
import { parseDocument } from 'yaml';

export interface FrontMatter {
  /** The members of the YAML; empty where there is none. */
  readonly fields: Readonly<Record<string, unknown>>;
  /** What follows, without blank lines around it. */
  readonly body: string;
}

const fenced = /^\uFEFF?---[ \t]*\r?\n(?<yaml>(?:[^\n]*\n)*?)---[ \t]*(?:\r?\n(?<body>[\s\S]*))?$/;

/** Throws an error whose message a person can act on. */
export function parseFrontMatter(text: string): FrontMatter {
  const found = fenced.exec(text);
  const { yaml = '', body = '' } = found ? (found.groups ?? {}) : { body: text };
  // Aliases may multiply: a small file must not become a large object.
  const document = parseDocument(yaml, { strict: true, uniqueKeys: true });
  const [error] = document.errors;
  if (error) throw new Error(`its front matter is no YAML: ${error.message.split('\n')[0]}`);
  const fields: unknown = document.toJS({ maxAliasCount: 0 }) ?? {};
  if (typeof fields !== 'object' || Array.isArray(fields))
    throw new Error('its front matter is a list or a word instead of members');
  return { fields: fields as Record<string, unknown>, body: body.trim() }; // an object, as was just checked
}
