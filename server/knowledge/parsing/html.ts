/** HTML: what a reader sees, in blocks; scripts, styles and what only leads elsewhere are left out. */
import { Parser } from 'htmlparser2';
import { ParseFailure } from './parse-failure.ts';
import type { ParsedDocument } from './parsed-document.ts';
import { rowText, tables, withoutBars } from './table-text.ts';
import { textBuilder } from './text-builder.ts';

const skipped = new Set([
  ...['script', 'style', 'noscript', 'template', 'svg', 'math', 'head', 'iframe', 'object', 'nav', 'button'],
  ...['select', 'textarea', 'audio', 'video', 'canvas'],
]);
const breaking = new Set([
  ...['p', 'div', 'section', 'article', 'main', 'aside', 'header', 'footer', 'blockquote', 'ul', 'ol', 'dl'],
  ...['dt', 'dd', 'figure', 'figcaption', 'form', 'fieldset', 'address', 'hr', 'body', 'details', 'summary'],
]);
/** Deeper ones are made to break readers, not to be read. */
const mostDepth = 2000;

export function parseHtml(source: string): ParsedDocument {
  const builder = textBuilder();
  let words = '';
  let depth = 0;
  let skipping = 0;
  let table = 0;
  let preformatted = 0;
  const rows = tables(builder);
  let cells: string[] = [];

  const flush = (): void => {
    const kind = preformatted > 0 ? ('code' as const) : ('paragraph' as const);
    builder.add(kind, kind === 'code' ? words.replace(/^\n/, '').trimEnd() : squeezed(words));
    words = '';
  };
  const endCell = (): void => {
    cells.push(withoutBars(words.trimEnd()));
    words = '';
  };
  // What stands in no cell, as a caption, is read where it is.
  const endRow = (): void => {
    if (words.trim() !== '') endCell();
    rows.add(rowText(cells));
    cells = [];
  };
  const parser = new Parser(
    {
      onopentag(name) {
        depth += 1;
        if (depth > mostDepth) throw tooDeep();
        if (skipping > 0 || skipped.has(name)) {
          skipping += 1;
          return;
        }
        if (/^h[1-6]$/.test(name) && table === 0) flush();
        else if (name === 'table') {
          if (table === 0) flush();
          table += 1;
        } else if (name === 'pre' && table === 0) {
          flush();
          preformatted += 1;
        } else if (name === 'br') words += '\n';
        else if (name === 'li' && table === 0) words += '\n- ';
        else if (name === 'tr' && table === 1) endRow();
        else if (breaking.has(name) && table === 0) flush();
        else if (breaking.has(name)) words += ' ';
      },
      ontext(data) {
        if (skipping === 0) words += preformatted > 0 ? data : data.replaceAll(/\s+/g, ' ');
      },
      onclosetag(name) {
        depth -= 1;
        if (skipping > 0) {
          skipping -= 1;
          return;
        }
        if (/^h[1-6]$/.test(name) && table === 0) {
          builder.heading(Number(name[1]), words);
          words = '';
        } else if (name === 'table') {
          table = Math.max(table - 1, 0);
          if (table > 0) return;
          endRow();
          rows.end();
        } else if ((name === 'td' || name === 'th') && table === 1) endCell();
        // A table in a cell is words of that cell.
        else if (name === 'td' || name === 'th') words += ' | ';
        else if (name === 'tr' && table === 1) endRow();
        else if (name === 'pre' && table === 0) {
          flush();
          preformatted = Math.max(preformatted - 1, 0);
        } else if (breaking.has(name) && table === 0) flush();
      },
    },
    { decodeEntities: true },
  );
  parser.end(source);
  flush();
  return builder.build('text/html');
}

function squeezed(words: string): string {
  return words
    .split('\n')
    .map((line) => line.replaceAll(/[^\S\n]+/g, ' ').trim())
    .filter((line) => line !== '' && line !== '-')
    .join('\n');
}

function tooDeep(): ParseFailure {
  return new ParseFailure('malformed', `Its elements stand more than ${mostDepth} deep; simplify the page.`);
}
