/** The tool that finds where a name is defined. */
import { z } from 'zod';
import type { Tool } from '../../tools/tool.ts';
import { locationLines, locationsOf } from '../locations.ts';
import { askAt, askingTool, type LspToolParts, placeInput } from './server-use.ts';

/** Builds the `definition` tool. */
export function definitionTool(parts: LspToolParts): Tool {
  return askingTool(
    {
      name: 'definition',
      description:
        'Finds where the name that is used at a place is defined, as a language server understands the code. ' +
        'A definition outside the workspace (a library, the standard library) is named, but cannot be read.',
      input: z.strictObject(placeInput),
    },
    async (input, place) => {
      const { answer, name } = await askAt(parts, 'textDocument/definition', input, place);
      const found = locationsOf(answer);
      return found.length === 0 ? `${name} finds no definition.` : locationLines(found, place.workspacePath);
    },
  );
}
