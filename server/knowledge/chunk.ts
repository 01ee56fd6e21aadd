/** A passage of a document: what is searched, embedded and cited. */

/** A passage of a document, cut by its structure. */
export type Chunk = {
  /** 0, 1, 2 … within the document. */
  ordinal: number;
  /** Exactly what the offsets cut out of the document's text. */
  text: string;
  /** In Unicode code points, the end not included: clients in any language cut the same. */
  start: number;
  end: number;
  /** Of a PDF or a PPTX, from 1. */
  page: number | null;
  /** The first line, from 1. */
  line: number;
  /** The headings above it, outermost first. */
  headings: string[];
};
