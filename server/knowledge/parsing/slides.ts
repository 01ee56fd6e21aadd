/** PPTX: a page for each slide in the order in which they are shown, its title as a heading, and its notes. */
import type { Archive } from './archive.ts';
import type { ParsedDocument } from './parsed-document.ts';
import { rowText, tables } from './table-text.ts';
import { type TextBuilder, textBuilder } from './text-builder.ts';
import { readXml, relationsOf } from './xml.ts';

const mediaType = 'application/vnd.openxmlformats-officedocument.presentationml.presentation';

export function parseSlides(archive: Archive): ParsedDocument {
  const builder = textBuilder();
  for (const path of slidesOf(archive)) {
    builder.nextPage();
    addSlide(builder, archive.read(path) ?? '');
    const notes = notesOf(archive, path);
    if (notes !== null) addSlide(builder, notes, { onlyBodies: true });
  }
  return builder.build(mediaType);
}

function slidesOf(archive: Archive): string[] {
  const targets = relationsOf(archive.read('ppt/_rels/presentation.xml.rels'), 'ppt');
  const slides: string[] = [];
  readXml(archive.read('ppt/presentation.xml') ?? '', {
    open(name, attributes) {
      const path = name === 'p:sldId' ? targets.get(attributes['r:id'] ?? '') : undefined;
      if (path !== undefined) slides.push(path);
    },
  });
  return slides;
}

function notesOf(archive: Archive, slide: string): string | null {
  const relations = archive.read(slide.replace(/([^/]+)$/, '_rels/$1.rels'));
  const targets = relationsOf(relations, 'ppt/slides');
  const path = [...targets.values()].find((target) => target.startsWith('ppt/notesSlides/'));
  return path === undefined ? null : archive.read(path);
}

/** Of notes only the body counts: the rest repeats the slide, its number and the date. */
function addSlide(builder: TextBuilder, source: string, { onlyBodies = false } = {}): void {
  let shape: string | null = null;
  let lines: string[] = [];
  let words = '';
  let inText = false;
  let inTable = false;
  const rows = tables(builder);
  let cells: string[] = [];
  let cell = '';

  const endShape = (): void => {
    const text = lines.join('\n');
    if (shape === 'title' || shape === 'ctrTitle') builder.heading(1, text);
    else if (!passedOver.has(shape ?? '') && (!onlyBodies || shape === 'body'))
      builder.add('paragraph', text);
    lines = [];
  };

  readXml(source, {
    open(name, { type }) {
      if (name === 'p:sp') shape = null;
      else if (name === 'p:ph') shape = type ?? 'body';
      else if (name === 'a:t') inText = true;
      else if (name === 'a:br') words += '\n';
      else if (name === 'a:tbl') inTable = true;
    },
    text(data) {
      if (inText) words += data;
    },
    close(name) {
      if (name === 'a:t') inText = false;
      else if (name === 'a:p') {
        if (inTable) cell += `${words.trim()} `;
        else if (words.trim() !== '') lines.push(words.trim());
        words = '';
      } else if (name === 'a:tc') {
        cells.push(cell);
        cell = '';
      } else if (name === 'a:tr') {
        rows.add(rowText(cells));
        cells = [];
      } else if (name === 'a:tbl') {
        inTable = false;
        rows.end();
      } else if (name === 'p:sp') endShape();
    },
  });
}

const passedOver = new Set(['sldNum', 'dt', 'ftr', 'hdr', 'sldImg']);
