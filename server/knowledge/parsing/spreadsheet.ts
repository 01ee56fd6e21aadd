/** XLSX: a heading and a table for each sheet, the values as they are stored, dates as dates. */
import type { Archive } from './archive.ts';
import type { ParsedDocument } from './parsed-document.ts';
import { rowText, tables } from './table-text.ts';
import { textBuilder } from './text-builder.ts';
import { readXml, relationsOf } from './xml.ts';

const mediaType = 'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet';

export function parseSpreadsheet(archive: Archive): ParsedDocument {
  const builder = textBuilder();
  const strings = sharedStrings(archive.read('xl/sharedStrings.xml'));
  const times = timeStyles(archive.read('xl/styles.xml'));
  const { sheets, dayZero } = workbookOf(archive);
  for (const { name, path } of sheets) {
    const source = archive.read(path);
    if (source === null) continue;
    builder.heading(1, name);
    const rows = tables(builder);
    readRows(source, { strings, times, dayZero }, (row) => rows.add(rowText(row)));
    rows.end();
  }
  return builder.build(mediaType);
}

/** The end of 1899, as spreadsheets count, their leap day of 1900 included; those that began on a Mac count from 1904. */
const dayZeros = { usual: Date.UTC(1899, 11, 30), mac: Date.UTC(1904, 0, 1) };

function workbookOf(archive: Archive) {
  const targets = relationsOf(archive.read('xl/_rels/workbook.xml.rels'), 'xl');
  const sheets: { name: string; path: string }[] = [];
  let dayZero = dayZeros.usual;
  readXml(archive.read('xl/workbook.xml') ?? '', {
    open(element, attributes) {
      const path = local(element) === 'sheet' ? targets.get(attributes['r:id'] ?? '') : undefined;
      if (path !== undefined) sheets.push({ name: attributes.name ?? '', path });
      else if (local(element) === 'workbookPr' && /^(1|true)$/.test(attributes.date1904 ?? ''))
        dayZero = dayZeros.mac;
    },
  });
  return { sheets, dayZero };
}

/** Some programs write a prefix before every name. */
function local(name: string): string {
  return name.slice(name.indexOf(':') + 1);
}

function sharedStrings(source: string | null): string[] {
  const strings: string[] = [];
  let words = '';
  let inText = false;
  let phonetic = 0;
  readXml(source ?? '', {
    open(name) {
      if (local(name) === 'si') words = '';
      else if (local(name) === 'rPh') phonetic += 1;
      else if (local(name) === 't') inText = true;
    },
    text(data) {
      if (inText && phonetic === 0) words += data;
    },
    close(name) {
      if (local(name) === 't') inText = false;
      else if (local(name) === 'rPh') phonetic -= 1;
      else if (local(name) === 'si') strings.push(words);
    },
  });
  return strings;
}

/** What the number in a cell counts: days since the first one, or days that have passed. */
type Time = 'date' | 'duration';

/** The cell styles that show a time. */
function timeStyles(source: string | null): ReadonlyMap<number, Time> {
  const custom = new Map<number, string>();
  const found = new Map<number, Time>();
  let inCells = false;
  let index = 0;
  readXml(source ?? '', {
    open(name, { numFmtId, formatCode }) {
      if (local(name) === 'numFmt') custom.set(Number(numFmtId), formatCode ?? '');
      else if (local(name) === 'cellXfs') inCells = true;
      else if (local(name) === 'xf' && inCells) {
        const time = timeOf(Number(numFmtId), custom);
        if (time) found.set(index, time);
        index += 1;
      }
    },
    close(name) {
      if (local(name) === 'cellXfs') inCells = false;
    },
  });
  return found;
}

/**
 * 14 to 22 and 45 to 47 are built in. What is quoted, and what tells of a width or a filling, is no part of the pattern, and
 * in brackets only the unit that counts on past its end.
 */
function timeOf(id: number, custom: ReadonlyMap<number, string>): Time | null {
  if (id === 46) return 'duration';
  if ((id >= 14 && id <= 22) || id === 45 || id === 47) return 'date';
  const pattern = (custom.get(id) ?? '').replaceAll(/"[^"]*"|[\\_*]./g, '');
  if (/\[(h+|m+|s+)\]/i.test(pattern)) return 'duration';
  return /[dmyhs]/i.test(pattern.replaceAll(/\[[^\]]*\]/g, '')) ? 'date' : null;
}

interface CellTerms {
  readonly strings: readonly string[];
  readonly times: ReadonlyMap<number, Time>;
  readonly dayZero: number;
}

function readRows(source: string, terms: CellTerms, row: (cells: string[]) => void): void {
  let cells: string[] = [];
  let column = 0;
  let type: string | undefined;
  let style = 0;
  let words = '';
  let inValue = false;
  readXml(source, {
    open(name, attributes) {
      if (local(name) === 'row') [cells, column] = [[], 0];
      else if (local(name) === 'c') {
        [type, style, words] = [attributes.t, Number(attributes.s ?? 0), ''];
        column = columnOf(attributes.r) ?? column;
      } else if (local(name) === 'v' || local(name) === 't') inValue = true;
    },
    text(data) {
      if (inValue) words += data;
    },
    close(name) {
      if (local(name) === 'v' || local(name) === 't') inValue = false;
      else if (local(name) === 'c') {
        // Empty cells are not in the file.
        while (cells.length < column) cells.push('');
        cells[column] = shownOf(words, type, style, terms);
        column += 1;
      } else if (local(name) === 'row') row(cells);
    },
  });
}

/** From 0; beyond the last one that spreadsheets have, the cell stands behind the one before. */
function columnOf(place: string | undefined): number | null {
  const letters = place?.match(/^[A-Z]{1,3}/)?.[0] ?? '';
  const column = [...letters].reduce((sum, letter) => sum * 26 + letter.charCodeAt(0) - 64, 0) - 1;
  return column >= 0 && column < 16_384 ? column : null;
}

function shownOf(
  words: string,
  type: string | undefined,
  style: number,
  { strings, times, dayZero }: CellTerms,
): string {
  if (type === 's') return strings[Number(words)] ?? '';
  if (type === 'b') return words === '1' ? 'TRUE' : 'FALSE';
  if (type !== undefined && type !== 'n') return words;
  const time = times.get(style);
  if (time === undefined) return words;
  return time === 'date' ? dateOf(words, dayZero) : durationOf(words);
}

/** Hours, however many, with their minutes and seconds. */
function durationOf(words: string): string {
  const seconds = Math.round(Number(words) * 86_400);
  if (words === '' || !Number.isSafeInteger(seconds)) return words;
  const parts = [Math.floor(Math.abs(seconds) / 60) % 60, Math.abs(seconds) % 60];
  const hours = `${seconds < 0 ? '-' : ''}${Math.floor(Math.abs(seconds) / 3600)}`;
  return [hours, ...parts.map((part) => String(part).padStart(2, '0'))].join(':');
}

function dateOf(words: string, dayZero: number): string {
  const days = Number(words);
  if (words === '' || !Number.isFinite(days) || days < 0 || days > 2_958_466) return words;
  const date = new Date(dayZero + Math.round(days * 86_400_000)).toISOString();
  if (days < 1) return date.slice(11, 19);
  return Number.isInteger(days) ? date.slice(0, 10) : date.slice(0, 19).replace('T', ' ');
}
