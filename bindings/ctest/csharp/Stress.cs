// A garbage collector at work, exceptions of null references and divisions, and
// characters that talk, all at once: what breaks when a library does not leave
// the host's signals alone.
//
//     Talk.exe stress SECONDS scripted|real
using System;
using System.Collections.Generic;
using System.Text;
using System.Threading;
using Lull.Native;
using static Lull.Native.lull;

internal static unsafe class Stress
{
    private static volatile bool stop;
    private static bool real;
    private static long collections, references, divisions, texts, frames;

    public static int Run(string[] args)
    {
        double seconds = args.Length > 1 ? double.Parse(args[1]) : 5;
        real = args.Length > 2 && args[2] == "real";
        var threads = new List<Thread>();
        foreach (ThreadStart work in new ThreadStart[] { Allocate, Allocate, Fail, () => Play(seconds) })
        {
            var t = new Thread(work);
            t.Start();
            threads.Add(t);
        }
        foreach (Thread t in threads)
        {
            t.Join();
        }
        Console.WriteLine("stress: {0} collections, {1} null references, {2} divisions, {3} texts, {4} frames",
            collections, references, divisions, texts, frames);
        return references > 0 && divisions > 0 && texts > 0 ? 0 : 1;
    }

    private static void Allocate()
    {
        var kept = new List<byte[]>();
        for (int i = 0; !stop; i++)
        {
            kept.Add(new byte[512 + i % 4096]);
            if (kept.Count > 2000)
            {
                kept.Clear();
                GC.Collect(0);
                Interlocked.Increment(ref collections);
            }
        }
    }

    private static void Fail()
    {
        object nothing = null;
        int zero = 0;
        while (!stop)
        {
            try
            {
                nothing.GetHashCode();
            }
            catch (NullReferenceException)
            {
                references++;
            }
            try
            {
                zero = 1 / zero;
            }
            catch (DivideByZeroException)
            {
                divisions++;
            }
        }
    }

    private static void Play(double seconds)
    {
        try
        {
            DateTime end = DateTime.UtcNow.AddSeconds(seconds);
            while (DateTime.UtcNow < end)
            {
                Life(real ? end : DateTime.UtcNow.AddSeconds(Math.Min(5, seconds / 2)));
            }
        }
        finally
        {
            stop = true;
        }
    }

    // One world, from its creation to its end.
    private static void Life(DateTime end)
    {
        lull_world_def def;
        Must(lull_default_world_def(&def, (uint)sizeof(lull_world_def)));
        if (real)
        {
            def.low_priority = 0; // the other threads here never rest
        }
        else
        {
            def.model_kind = (int)lull_model_kind.LULL_MODEL_SCRIPTED;
            def.scripted_token_ns = 200000;
        }
        lull_world_id world;
        Must(lull_world_create(&def, &world));
        lull_npc_id npc;
        lull_npc_def who;
        Must(lull_default_npc_def(&who, (uint)sizeof(lull_npc_def)));
        byte[] sheet = Encoding.UTF8.GetBytes("lull: 1\nname: Odo\ndescription: the keeper of an inn, cheerful.\n");
        fixed (byte* persona = sheet)
        {
            who.persona = persona;
            who.persona_bytes = sheet.Length;
            Must(lull_npc_create(world, &who, &npc));
        }
        byte[] line = Encoding.UTF8.GetBytes("A room for the night, please.");
        var events = new lull_event[16];
        bool ready = false;
        // Beside a loaded machine the real model's first word may take longer than the run.
        for (ulong frame = 1; DateTime.UtcNow < (real && texts == 0 ? end.AddSeconds(90) : end); frame++)
        {
            if (ready && lull_npc_is_busy(npc) == 0)
            {
                fixed (byte* text = line)
                {
                    Must(lull_npc_say(npc, text, line.Length, null));
                }
            }
            Must(lull_frame_begin(world, frame, 4000000, LULL_NOW));
            Must(lull_frame_end(world, frame, 0, LULL_NOW, null));
            int count = 0;
            fixed (lull_event* first = events)
            {
                Must(lull_poll_events(world, first, sizeof(lull_event), events.Length, &count));
            }
            for (int i = 0; i < count; i++)
            {
                ready = ready || events[i].kind == (int)lull_event_kind.LULL_EVENT_WORLD_READY;
                texts += events[i].kind == (int)lull_event_kind.LULL_EVENT_TEXT ? 1 : 0;
            }
            frames++;
            Thread.Sleep(1);
        }
        Must(lull_npc_destroy(npc));
        Must(lull_world_destroy(world));
    }

    private static void Must(int result)
    {
        if (result != 0)
        {
            throw new InvalidOperationException("lull answered " + (lull_result)result);
        }
    }
}
