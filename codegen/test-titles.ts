/** Which titles in a file of tests are those of tests that run. */

/**
 * The text without what does not run: comments, and tests that are skipped or only planned. What a formatted statement
 * holds ends with the line that is indented as its first, and ends in a semicolon.
 */
export function withoutIdle(text: string): string {
  const lines = text.replaceAll(/^\s*\/\*[\s\S]*?\*\//gm, '').split('\n');
  let idle: string | null = null;
  return lines
    .filter((line) => {
      if (/^\s*\/\//.test(line)) return false;
      const begun: string | undefined = /^(\s*)(?:test|it|describe)(?:\.\w+)*\.(?:skip|todo)\b/.exec(
        line,
      )?.[1];
      if (idle === null && begun === undefined) return true;
      const indent: string = idle ?? begun ?? '';
      const ends = line.startsWith(indent) && /^\S.*;$|^;$/.test(line.slice(indent.length));
      idle = ends ? null : indent;
      return false;
    })
    .join('\n');
}

/** Whether the bracket at this place takes the title of a test: of `test` itself, of a table, or under another name. */
export function opensTest(text: string, bracket: number): boolean {
  const before = text.slice(0, bracket);
  if (before.endsWith(')')) return true;
  const name = /([\w$]+)(?:\.\w+)*$/.exec(before.slice(-80))?.[1] ?? '';
  return (
    ['test', 'it', 'describe'].includes(name) ||
    new RegExp(`\\b(?:const|let) ${name.replaceAll('$', '[$]')}\\b[^;]*? = (?:test|it|describe)\\b`).test(
      text,
    )
  );
}

/** Whether the title, or a case of a table that is named so, is there and runs. */
export function hasTitle(file: string, title: string): boolean {
  const text = withoutIdle(file);
  return ["'", '"', '`'].some((quote) =>
    placesOf(text, quote + title + quote).some((at) => isTitle(text, at)),
  );
}

function placesOf(text: string, part: string): number[] {
  const at = text.indexOf(part);
  return at < 0 ? [] : [at, ...placesOf(text.slice(at + 1), part).map((next) => next + at + 1)];
}

function isTitle(text: string, at: number): boolean {
  const before = text.slice(0, at).trimEnd();
  // A case stands in the list of a table.
  return /[[,]$/.test(before) || (before.endsWith('(') && opensTest(text, before.length - 1));
}
