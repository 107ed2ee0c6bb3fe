// The same as ../c/talk.c in C# 7, with what abigen made for Unity.
using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.IO;
using System.Text;
using System.Threading;
using Lull.Native;
using static Lull.Native.lull;

internal static unsafe class Talk
{
    private const long Frame = 16666667;

    private static readonly List<long> Costs = new List<long>();
    private static readonly lull_event[] Events = new lull_event[16];
    private static TextWriter output;
    private static ulong frame;

    private static void Check(int result, lull_world_id world, string what)
    {
        if (result == LULL_OK)
        {
            return;
        }
        byte* text = stackalloc byte[1024];
        int length = 0;
        lull_last_error(world, text, 1024, &length);
        Console.Error.WriteLine("{0}: {1}, {2}", what, result, Encoding.UTF8.GetString(text, Math.Min(length, 1023)));
        Environment.Exit(1);
    }

    private const int LULL_OK = (int)lull_result.LULL_OK;

    private static void WaitUntil(long instant)
    {
        long rest = instant - lull_time_ns();
        if (rest > 0)
        {
            Thread.Sleep((int)(rest / 1000000));
        }
    }

    // One frame. Returns how many events stand in Events.
    private static int Play(lull_world_id world)
    {
        long begin = lull_time_ns(), deadline = begin + Frame;
        frame++;
        Check(lull_frame_begin(world, frame, Frame, begin), world, "frame begin");
        long t0 = lull_time_ns();
        WaitUntil(begin + 2000000); // the game's own work
        long t1 = lull_time_ns();
        Check(lull_frame_end(world, frame, deadline, LULL_NOW, null), world, "frame end");
        int count = 0;
        fixed (lull_event* events = Events)
        {
            Check(lull_poll_events(world, events, sizeof(lull_event), Events.Length, &count), world, "poll");
        }
        Costs.Add((t0 - begin) + (lull_time_ns() - t1));
        WaitUntil(deadline); // present: here the model runs
        return count;
    }

    // Plays frames until an event of that kind comes, and prints text meanwhile.
    private static void Until(lull_world_id world, lull_event_kind kind)
    {
        for (bool over = false; !over;)
        {
            int n = Play(world);
            for (int i = 0; i < n; i++)
            {
                lull_event e = Events[i];
                var what = (lull_event_kind)e.kind;
                string text = Encoding.UTF8.GetString(e.text, e.text_bytes);
                if (what == lull_event_kind.LULL_EVENT_WORLD_FAILED || what == lull_event_kind.LULL_EVENT_REPLY_FAILED)
                {
                    Console.Error.WriteLine("event {0}: {1}, {2}", what, e.result, text);
                    Environment.Exit(1);
                }
                if (what == lull_event_kind.LULL_EVENT_TEXT)
                {
                    output.Write(text);
                }
                over = over || what == kind;
            }
        }
    }

    private static lull_world_id Open(string kind, out lull_npc_id npc)
    {
        var none = new lull_world_id();
        Check(lull_abi_check(LULL_ABI_VERSION, sizeof(lull_event)), none, "abi");
        lull_world_def def;
        Check(lull_default_world_def(&def, (uint)sizeof(lull_world_def)), none, "world def");
        if (kind != "real")
        {
            def.model_kind = (int)lull_model_kind.LULL_MODEL_SCRIPTED;
        }
        lull_world_id world;
        Check(lull_world_create(&def, &world), none, "world");
        lull_npc_def who;
        Check(lull_default_npc_def(&who, (uint)sizeof(lull_npc_def)), none, "npc def");
        byte[] name = Encoding.UTF8.GetBytes("blacksmith");
        lull_npc_id made;
        fixed (byte* file = name)
        {
            who.persona_file = file;
            who.persona_file_bytes = name.Length;
            who.greedy = 1;
            who.reply_tokens_max = kind == "real" ? 12 : 0; // one sentence shows it
            Check(lull_npc_create(world, &who, &made), world, "npc");
        }
        npc = made;
        return world;
    }

    private static void Say(lull_world_id world, lull_npc_id npc, string line)
    {
        byte[] bytes = Encoding.UTF8.GetBytes(line);
        fixed (byte* text = bytes)
        {
            Check(lull_npc_say(npc, text, bytes.Length, null), world, "say");
        }
    }

    private static int Main(string[] args)
    {
        output = new StreamWriter(Console.OpenStandardOutput(), new UTF8Encoding(false)) { AutoFlush = true };
        string kind = args.Length > 0 ? args[0] : "scripted";
        if (kind == "stress")
        {
            return Stress.Run(args);
        }
        lull_npc_id npc;
        lull_world_id world = Open(kind, out npc);
        Until(world, lull_event_kind.LULL_EVENT_WORLD_READY);
        var lines = new List<string>(args);
        lines.RemoveRange(0, Math.Min(1, lines.Count));
        if (lines.Count == 0)
        {
            lines.Add("Hello, Brenna!");
            lines.Add("Où est la mine? \U0001F5FB");
        }
        foreach (string line in lines)
        {
            output.Write("player: " + line + "\nnpc: ");
            Say(world, npc, line);
            Until(world, lull_event_kind.LULL_EVENT_DONE);
            output.Write("\n");
        }
        Check(lull_world_destroy(world), new lull_world_id(), "destroy");
        Costs.Sort();
        output.Write("frame cost: {0} frames, p50 {1:0.0} us, p99 {2:0.0} us\n", Costs.Count,
            Costs[Costs.Count / 2] / 1000.0, Costs[Costs.Count * 99 / 100] / 1000.0);
        return 0;
    }
}
