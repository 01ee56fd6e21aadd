/** DOCX: paragraphs, headings by their style, lists and tables. */
import type { Archive } from './archive.ts';
import type { ParsedDocument } from './parsed-document.ts';
import { rowText, tables, withoutBars } from './table-text.ts';
import { textBuilder } from './text-builder.ts';
import { readXml } from './xml.ts';

const mediaType = 'application/vnd.openxmlformats-officedocument.wordprocessingml.document';

export function parseWord(archive: Archive): ParsedDocument {
  const levels = headingStyles(archive.read('word/styles.xml'));
  const builder = textBuilder();
  let words = '';
  let style: string | null = null;
  let level: number | null = null;
  let isListItem = false;
  /** A text box stands in the middle of a paragraph, and has some of its own. */
  const around: { words: string; style: string | null; level: number | null; isListItem: boolean }[] = [];
  let inText = false;
  let table = 0;
  const rows = tables(builder);
  let cells: string[] = [];
  let cell = '';
  // Of a text that was changed only the last version counts, and of a drawing only one of its two forms.
  let hidden = 0;

  const endParagraph = (): void => {
    const text = words.trim();
    if (table > 0) cell += text === '' ? '' : `${text} `;
    else if (level !== null || (style !== null && levels.has(style)))
      builder.heading(level ?? levels.get(style ?? '') ?? 1, text);
    else builder.add('paragraph', isListItem && text !== '' ? `- ${text}` : words);
    ({ words, style, level, isListItem } = around.pop() ?? { words: '', style, level, isListItem });
  };

  readXml(archive.read('word/document.xml') ?? '', {
    open(name, attributes) {
      if (hiding.has(name)) hidden += 1;
      if (name === 'w:p') {
        around.push({ words, style, level, isListItem });
        [words, style, level, isListItem] = ['', null, null, false];
      } else if (name === 'w:pStyle') style = attributes['w:val'] ?? null;
      else if (name === 'w:outlineLvl') level = levelOf(attributes['w:val']);
      else if (name === 'w:numPr') isListItem = true;
      else if (name === 'w:t') inText = true;
      else if (name === 'w:tab') words += '\t';
      else if (name === 'w:br' || name === 'w:cr') words += '\n';
      else if (name === 'w:noBreakHyphen' && hidden === 0) words += '-';
      else if (name === 'w:tbl') table += 1;
    },
    text(data) {
      if (inText && hidden === 0) words += data;
    },
    close(name) {
      if (hiding.has(name)) hidden -= 1;
      if (name === 'w:t') inText = false;
      else if (name === 'w:p') endParagraph();
      // A table in a cell is words of that cell.
      else if (name === 'w:tc' && table > 1) cell += '| ';
      else if (name === 'w:tc' && table === 1) {
        cells.push(withoutBars(cell));
        cell = '';
      } else if (name === 'w:tr' && table === 1) {
        rows.add(rowText(cells));
        cells = [];
      } else if (name === 'w:tbl') {
        table -= 1;
        if (table === 0) rows.end();
      }
    },
  });
  return builder.build(mediaType);
}

const hiding = new Set(['w:del', 'w:moveFrom', 'mc:Fallback']);

/** From 1; null for the text that stands in no outline. */
function levelOf(value: string | undefined): number | null {
  const level = Number(value);
  return Number.isInteger(level) && level >= 0 && level <= 8 ? Math.min(level + 1, 6) : null;
}

/** The styles of headings with their levels, whatever they are called in the language of the file. */
function headingStyles(source: string | null): ReadonlyMap<string, number> {
  const levels = new Map<string, number>();
  let style: string | null = null;
  readXml(source ?? '', {
    open(name, attributes) {
      if (name === 'w:style') style = attributes['w:styleId'] ?? null;
      if (style === null) return;
      const [, number] = attributes['w:val']?.match(/^heading ([1-9])$/i) ?? [];
      if (name === 'w:name' && number !== undefined) levels.set(style, Math.min(Number(number), 6));
      if (name === 'w:name' && attributes['w:val']?.toLowerCase() === 'title') levels.set(style, 1);
      const level = name === 'w:outlineLvl' ? levelOf(attributes['w:val']) : null;
      if (level !== null) levels.set(style, level);
    },
    close(name) {
      if (name === 'w:style') style = null;
    },
  });
  return levels;
}
