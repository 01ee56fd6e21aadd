/** Small documents in each format that is read, made from headings and paragraphs: for tests and the proof of size. */
import { zipSync } from 'fflate';

export interface TestSection {
  readonly title: string;
  readonly paragraphs: readonly string[];
}

const encoder = new TextEncoder();

function zipped(parts: Readonly<Record<string, string>>): Uint8Array {
  return zipSync(
    Object.fromEntries(Object.entries(parts).map(([name, text]) => [name, encoder.encode(text)])),
  );
}

function escaped(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;');
}

const declaration = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>';
const schemas = 'http://schemas.openxmlformats.org';
const relationships = `${schemas}/officeDocument/2006/relationships`;

function relations(targets: Readonly<Record<string, string>>): string {
  const all = Object.entries(targets).map(
    ([id, target]) => `<Relationship Id="${id}" Type="${relationships}/part" Target="${target}"/>`,
  );
  return `${declaration}<Relationships xmlns="${schemas}/package/2006/relationships">${all.join('')}</Relationships>`;
}

export function makeMarkdown(sections: readonly TestSection[]): Uint8Array {
  return encoder.encode(
    sections.map(({ title, paragraphs }) => [`# ${title}`, ...paragraphs].join('\n\n')).join('\n\n'),
  );
}

export function makeHtml(sections: readonly TestSection[]): Uint8Array {
  const body = sections.map(
    ({ title, paragraphs }) =>
      `<h1>${escaped(title)}</h1>${paragraphs.map((text) => `<p>${escaped(text)}</p>`).join('')}`,
  );
  return encoder.encode(
    `<!doctype html><html><head><title>x</title><script>hidden()</script></head><body><nav>menu</nav>${body.join('')}</body></html>`,
  );
}

export function makeWord(sections: readonly TestSection[], extra = ''): Uint8Array {
  const paragraph = (text: string, style = '') =>
    `<w:p>${style}<w:r><w:t xml:space="preserve">${escaped(text)}</w:t></w:r></w:p>`;
  const body = sections.map(({ title, paragraphs }) =>
    [
      paragraph(title, '<w:pPr><w:pStyle w:val="berschrift1"/></w:pPr>'),
      ...paragraphs.map((text) => paragraph(text)),
    ].join(''),
  );
  const space = `xmlns:w="${schemas}/wordprocessingml/2006/main"`;
  return zipped({
    'word/document.xml': `${declaration}<w:document ${space}><w:body>${body.join('')}${extra}</w:body></w:document>`,
    'word/styles.xml': `${declaration}<w:styles ${space}><w:style w:type="paragraph" w:styleId="berschrift1"><w:name w:val="heading 1"/></w:style></w:styles>`,
  });
}

/** A sheet for each section; a row for each paragraph, with its number before it. */
export function makeSpreadsheet(sections: readonly TestSection[]): Uint8Array {
  const space = `xmlns="${schemas}/spreadsheetml/2006/main"`;
  const strings: string[] = [];
  const shared = (text: string): number => strings.push(text) - 1;
  const parts: Record<string, string> = {};
  for (const [index, { paragraphs }] of sections.entries()) {
    const rows = paragraphs.map(
      (text, row) =>
        `<row r="${row + 1}"><c r="A${row + 1}"><v>${row + 1}</v></c><c r="B${row + 1}" s="1"><v>${46_000 + row}</v></c><c r="D${row + 1}" t="s"><v>${shared(text)}</v></c></row>`,
    );
    parts[`xl/worksheets/sheet${index + 1}.xml`] =
      `${declaration}<worksheet ${space}><sheetData>${rows.join('')}</sheetData></worksheet>`;
  }
  const sheets = sections.map(
    ({ title }, index) => `<sheet name="${escaped(title)}" sheetId="${index + 1}" r:id="r${index + 1}"/>`,
  );
  return zipped({
    ...parts,
    'xl/workbook.xml': `${declaration}<workbook ${space} xmlns:r="${relationships}"><sheets>${sheets.join('')}</sheets></workbook>`,
    'xl/_rels/workbook.xml.rels': relations(
      Object.fromEntries(sections.map((_, index) => [`r${index + 1}`, `worksheets/sheet${index + 1}.xml`])),
    ),
    'xl/sharedStrings.xml': `${declaration}<sst ${space}>${strings.map((text) => `<si><t>${escaped(text)}</t></si>`).join('')}</sst>`,
    'xl/styles.xml': `${declaration}<styleSheet ${space}><cellXfs><xf numFmtId="0"/><xf numFmtId="14"/></cellXfs></styleSheet>`,
  });
}

/** A slide for each section. */
export function makeSlides(sections: readonly TestSection[]): Uint8Array {
  const spaces = `xmlns:a="${schemas}/drawingml/2006/main" xmlns:p="${schemas}/presentationml/2006/main" xmlns:r="${relationships}"`;
  const shape = (type: string, lines: readonly string[]) =>
    `<p:sp><p:nvSpPr><p:nvPr><p:ph type="${type}"/></p:nvPr></p:nvSpPr><p:txBody>${lines
      .map((line) => `<a:p><a:r><a:t>${escaped(line)}</a:t></a:r></a:p>`)
      .join('')}</p:txBody></p:sp>`;
  const parts: Record<string, string> = {};
  for (const [index, { title, paragraphs }] of sections.entries())
    parts[`ppt/slides/slide${index + 1}.xml`] =
      `${declaration}<p:sld ${spaces}><p:cSld><p:spTree>${shape('title', [title])}${shape('body', paragraphs)}${shape('sldNum', ['7'])}</p:spTree></p:cSld></p:sld>`;
  const ids = sections.map((_, index) => `<p:sldId id="${256 + index}" r:id="r${index + 1}"/>`);
  return zipped({
    ...parts,
    'ppt/presentation.xml': `${declaration}<p:presentation ${spaces}><p:sldIdLst>${ids.join('')}</p:sldIdLst></p:presentation>`,
    'ppt/_rels/presentation.xml.rels': relations(
      Object.fromEntries(sections.map((_, index) => [`r${index + 1}`, `slides/slide${index + 1}.xml`])),
    ),
  });
}

const lineLetters = 80;

/** A page for each section, in letters of Latin-1. */
export function makePdf(sections: readonly TestSection[]): Uint8Array {
  const objects: string[] = [
    '<< /Type /Catalog /Pages 2 0 R >>',
    `<< /Type /Pages /Count ${sections.length} /Kids [${sections.map((_, index) => `${4 + index * 2} 0 R`).join(' ')}] >>`,
    '<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>',
  ];
  for (const section of sections) {
    const content = pageOf(section);
    objects.push(
      `<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Resources << /Font << /F1 3 0 R >> >> /Contents ${objects.length + 2} 0 R >>`,
      `<< /Length ${content.length} >>\nstream\n${content}\nendstream`,
    );
  }
  let file = '%PDF-1.4\n';
  const offsets = objects.map((object, index) => {
    const offset = file.length;
    file += `${index + 1} 0 obj\n${object}\nendobj\n`;
    return offset;
  });
  const table = offsets.map((offset) => `${String(offset).padStart(10, '0')} 00000 n \n`).join('');
  const end = `xref\n0 ${objects.length + 1}\n0000000000 65535 f \n${table}trailer\n<< /Size ${objects.length + 1} /Root 1 0 R >>\nstartxref\n${file.length}\n%%EOF`;
  return Uint8Array.from(Buffer.from(file + end, 'latin1'));
}

function pageOf({ title, paragraphs }: TestSection): string {
  const drawn = (text: string) => `(${text.replaceAll(/[\\()]/g, '\\$&')}) Tj`;
  const lines = [`/F1 20 Tf 50 780 Td ${drawn(title)} /F1 11 Tf 0 -16 Td`];
  for (const text of paragraphs) {
    lines.push('0 -14 Td');
    for (let at = 0; at < text.length; ) {
      const space = text.lastIndexOf(' ', at + lineLetters);
      const end =
        at + lineLetters >= text.length || space <= at ? Math.min(at + lineLetters, text.length) : space;
      lines.push(`0 -14 Td ${drawn(text.slice(at, end))}`);
      at = end + (text[end] === ' ' ? 1 : 0);
    }
  }
  return `BT ${lines.join('\n')} ET`;
}
