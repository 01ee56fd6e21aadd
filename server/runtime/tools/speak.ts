/** The tool that has a text spoken, and saves the sound. */
import { dirname } from 'node:path';
import { z } from 'zod';
import { defineTool, success } from './define-tool.ts';
import { withNote } from './edit.ts';
import { askMedia, type MediaToolOptions, withWarnings } from './media-call.ts';
import { knownFile, saveFile } from './saved-file.ts';
import type { Tool } from './tool.ts';
import { assertWritable, resolveAgain, resolvePath } from './workspace-path.ts';

const input = z.strictObject({
  text: z.string().trim().min(1).max(32_000).describe('What is to be said'),
  file_path: z.string().min(1).describe('Where to save it, relative to the workspace or absolute'),
  voice: z.string().min(1).max(100).optional().describe('Who speaks, by the model’s name for them'),
  format: z
    .string()
    .regex(/^[a-z0-9_-]{1,20}$/)
    .optional()
    .describe('The format of the sound, as mp3 or wav'),
  instructions: z.string().min(1).max(4000).optional().describe('How it is to be spoken, in words'),
});

/** Builds the `speak` tool. */
export function speakTool({ media, config, rules }: MediaToolOptions): Tool {
  return defineTool({
    name: 'speak',
    description:
      'Has a model speak a text and saves the sound as a file, making missing folders. A file that is there already ' +
      'has to be viewed first. Each call costs money.',
    idempotent: false,
    needsPermission: true,
    input,
    async prepare(request, context) {
      const { text, voice, format, instructions } = request;
      const model = media.find('speech', config, { voice, format });
      const path = await resolvePath(request.file_path, context.workspacePath);
      assertWritable(rules, path);
      await knownFile(path, context);
      return {
        permission: {
          action: 'execute',
          description: `Have ${model.name} speak a text, and save it as ${path.shown}`,
          path: dirname(path.real),
          file: path.real,
          params: { ...request },
        },
        async run() {
          const made = await askMedia(context, (call) => model.ask({ text, instructions }, call));
          const { mediaType } = made.sound;
          await resolveAgain(path);
          const { bytes, note } = await saveFile([made.sound.bytes], path, context);
          const said = `Saved the sound as ${path.shown} (${mediaType}, ${bytes} bytes).`;
          return success(withNote(withWarnings(said, made.warnings), note), {
            ...{ path: path.shown, bytes, type: mediaType, model: model.name },
          });
        },
      };
    },
  });
}
