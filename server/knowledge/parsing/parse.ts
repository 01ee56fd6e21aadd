/** Which parser reads a file: told by its bytes; its name only tells kinds of text from each other. */
import { isUtf8 } from 'node:buffer';
import { isLegible, readAs, readAsClaimed } from '../../text-encoding.ts';
import { openArchive } from './archive.ts';
import { withBoundedBlocks } from './bounded-blocks.ts';
import { parseCsv } from './csv.ts';
import { parseHtml } from './html.ts';
import { markdownBlocks } from './markdown.ts';
import { ParseFailure } from './parse-failure.ts';
import { type DocumentClaims, type TextKind, textKindOf } from './parse-names.ts';
import { type Block, cleaned, mostCharacters, type ParsedDocument } from './parsed-document.ts';
import { parsePdf } from './pdf.ts';
import { paragraphsOf } from './plain-text.ts';
import { parseSlides } from './slides.ts';
import { codeBlocks } from './source-code.ts';
import { parseSpreadsheet } from './spreadsheet.ts';
import { tooLong } from './text-builder.ts';
import { parseWord } from './word.ts';

export async function parse(bytes: Uint8Array, claims: DocumentClaims): Promise<ParsedDocument> {
  const parsed = await parsedBy(bytes, claims);
  if (parsed.text.trim() !== '') return withBoundedBlocks(parsed);
  throw new ParseFailure('empty', 'There is no text in it: a scan has to go through text recognition first.');
}

async function parsedBy(bytes: Uint8Array, claims: DocumentClaims): Promise<ParsedDocument> {
  const head = Buffer.from(bytes.buffer, bytes.byteOffset, Math.min(bytes.length, 1024));
  // Readers of PDF allow for something before its mark; a text may have a word about it there.
  const pdfMark = head.indexOf('%PDF-');
  if (pdfMark === 0 || (pdfMark > 0 && !isUtf8(bytes))) return parsePdf(bytes);
  // The reader takes the memory that it is given for its own.
  const pdf = pdfMark > 0 ? await parsePdf(bytes.slice()).catch(nullIfDamaged) : null;
  if (pdf) return pdf;
  if (head.subarray(0, 4).equals(zipMark)) return parseOffice(bytes);
  if (head.subarray(0, 8).equals(compoundMark)) throw refusedCompound(bytes);
  return parseText(textOf(bytes, claims), claims.name);
}

function nullIfDamaged(error: unknown): null {
  if (error instanceof ParseFailure && error.code === 'malformed') return null;
  throw error;
}

const zipMark = Buffer.from([0x50, 0x4b, 0x03, 0x04]);
const compoundMark = Buffer.from([0xd0, 0xcf, 0x11, 0xe0, 0xa1, 0xb1, 0x1a, 0xe1]);

/** An archive is read as what its parts make it. */
function parseOffice(bytes: Uint8Array): ParsedDocument {
  const archive = openArchive(bytes);
  if (archive.names.includes('word/document.xml')) return parseWord(archive);
  if (archive.names.includes('xl/workbook.xml')) return parseSpreadsheet(archive);
  if (archive.names.includes('ppt/presentation.xml')) return parseSlides(archive);
  throw new ParseFailure('unsupported_type', 'It is an archive of files; unpack it, and add what is in it.');
}

/** Encrypted office files of today look like those of before 2007, with a stream of that name. */
function refusedCompound(bytes: Uint8Array): ParseFailure {
  const encrypted = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).includes(
    Buffer.from('EncryptedPackage', 'utf16le'),
  );
  return encrypted
    ? new ParseFailure('password_protected', 'The file asks for a password; save it without one.')
    : new ParseFailure(
        'unsupported_type',
        'Office files from before 2007 are not read; save it as DOCX, XLSX or PPTX.',
      );
}

function textOf(bytes: Uint8Array, claims: DocumentClaims): string {
  if (bytes.length > mostCharacters * 4) throw tooLong();
  const text = decoded(bytes, claims);
  if (text.length > mostCharacters) throw tooLong();
  return cleaned(text);
}

function decoded(bytes: Uint8Array, { name, charset }: DocumentClaims): string {
  const start = Buffer.from(bytes.subarray(0, 1000)).toString('latin1');
  const claimed = readAsClaimed(bytes, { charset, isPage: kindOf(start, name) === 'html' });
  if (claimed?.encoding.startsWith('utf-16')) return claimed.text;
  if (bytes.subarray(0, 65_536).includes(0)) throw noText();
  const isUnicode = isUtf8(bytes);
  const unicode = readAs('utf-8', bytes);
  const { text } = claimed ?? (isLegible(unicode, bytes) ? unicode : readAs('windows-1252', bytes));
  // In encodings of old programs any byte is a letter, so that what is no text has to be told by its control characters.
  if (!isUnicode && controlsIn(text.slice(0, 65_536)) > 0.01) throw noText();
  return text;
}

/** How many of its characters are some that no text has. */
function controlsIn(text: string): number {
  return (text.match(/[^\P{Cc}\t\n\r\f\v]/gu)?.length ?? 0) / text.length;
}

function noText(): ParseFailure {
  return new ParseFailure(
    'unsupported_type',
    'No text is read from this type of file; add text, Markdown, HTML, PDF, DOCX, XLSX, CSV, PPTX or source code.',
  );
}

const mediaTypes: Readonly<Record<TextKind, string>> = {
  markdown: 'text/markdown',
  html: 'text/html',
  csv: 'text/csv',
  code: 'text/plain',
  text: 'text/plain',
};

function parseText(text: string, name: string): ParsedDocument {
  const kind = kindOf(text, name);
  if (kind === 'html') return parseHtml(text);
  if (kind === 'csv') return parseCsv(text);
  return { mediaType: mediaTypes[kind], text, blocks: blocksOf(text, kind), pages: null };
}

function kindOf(text: string, name: string): TextKind {
  return /^\s*(<!doctype html|<html[\s>])/i.test(text.slice(0, 1000)) ? 'html' : textKindOf(name);
}

function blocksOf(text: string, kind: Exclude<TextKind, 'html' | 'csv'>): Block[] {
  if (kind === 'markdown') return markdownBlocks(text);
  return kind === 'code' ? codeBlocks(text) : paragraphsOf(text);
}
