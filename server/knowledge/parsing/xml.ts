/** Reads the XML of office files element by element: nothing is kept but what a reader takes. */
import { posix } from 'node:path';
import { Parser } from 'htmlparser2';
import { ParseFailure } from './parse-failure.ts';

export interface XmlReader {
  open?(name: string, attributes: Readonly<Record<string, string>>): void;
  text?(words: string): void;
  close?(name: string): void;
}

/** Real files stay below a tenth of that. */
const mostDepth = 500;

/** Entities that the file defines itself are not expanded. */
export function readXml(source: string, reader: XmlReader): void {
  let depth = 0;
  const parser = new Parser(
    {
      onopentag(name, attributes) {
        depth += 1;
        if (depth > mostDepth)
          throw new ParseFailure(
            'malformed',
            `Its elements stand more than ${mostDepth} deep; save it again.`,
          );
        reader.open?.(name, attributes);
      },
      ontext: (words) => reader.text?.(words),
      onclosetag(name) {
        depth -= 1;
        reader.close?.(name);
      },
    },
    { xmlMode: true, decodeEntities: true },
  );
  parser.end(source);
}

/**
 * The targets of a part's relations, by their ids: paths within the archive. What leads out of it is whatever a person has
 * typed as a link, and no more an address than a path.
 */
export function relationsOf(source: string | null, folder: string): ReadonlyMap<string, string> {
  const targets = new Map<string, string>();
  readXml(source ?? '', {
    open(name, { Id, Target, TargetMode }) {
      if (name !== 'Relationship' || Id === undefined || Target === undefined) return;
      if (TargetMode === 'External') return;
      targets.set(Id, posix.resolve('/', folder, Target.replaceAll('\\', '/')).slice(1));
    },
  });
  return targets;
}
